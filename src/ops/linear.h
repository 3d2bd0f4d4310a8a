// x·Wᵀ + b by the fastest product LibTorch brings.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

/// x [..., in], weight [out, in], bias [out] or undefined. In fp32 on the CPU the forward product and the gradient of x
/// go to oneDNN, which is up to a quarter faster there than the BLAS behind at::linear (bench/results); the gradient of
/// the weight stays with BLAS, which is faster at that shape.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace siamese
