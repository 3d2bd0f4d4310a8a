// Matrix products of the training step as one registered operator, `siamese::gemm`. On the GPU, in bf16, each shape
// runs the fastest of cuBLASLt's algorithms on this device (ops/cuda/gemm_cuda.cpp); elsewhere it is LibTorch's own
// product.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace siamese {

/// a·b of two matrices, each transposed first where asked, plus a bias on every row.
at::Tensor gemm(const at::Tensor& a, const at::Tensor& b, bool transpose_a, bool transpose_b,
                const std::optional<at::Tensor>& bias = std::nullopt);

/// The same by LibTorch's product.
at::Tensor gemm_plain(const at::Tensor& a, const at::Tensor& b, bool transpose_a, bool transpose_b,
                      const std::optional<at::Tensor>& bias = std::nullopt);

/// x [..., in]·Wᵀ + b for x of any shape.
at::Tensor gemm_project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace siamese
