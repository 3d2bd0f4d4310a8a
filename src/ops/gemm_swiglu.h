// The feed-forward's products with SwiGLU in them, as registered operators `siamese::gemm_swiglu` and
// `siamese::gemm_swiglu_backward`. Where that pays (Hopper, bf16; kernels/cuda/gemm_swiglu.h) P is not read again for
// h, and the gradient of h never lies in memory; elsewhere it is a product and an activation.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace siamese {

/// x [m, k], weight [2f, k] (values, then gates) -> P = x·Wᵀ [m, 2f] and h = P_value·silu(P_gate) [m, f].
std::tuple<at::Tensor, at::Tensor> gemm_swiglu(const at::Tensor& x, const at::Tensor& weight);

/// The same for x [..., k] of any shape.
std::tuple<at::Tensor, at::Tensor> gemm_project_swiglu(const at::Tensor& x, const at::Tensor& weight);

/// g [m, k], weight [k, f], P -> the gradient of P for that of h, g·W, and h again.
std::tuple<at::Tensor, at::Tensor> gemm_swiglu_backward(const at::Tensor& g, const at::Tensor& weight,
                                                        const at::Tensor& p);

/// The same by a product and an activation.
std::tuple<at::Tensor, at::Tensor> gemm_swiglu_apart(const at::Tensor& x, const at::Tensor& weight);
std::tuple<at::Tensor, at::Tensor> gemm_swiglu_backward_apart(const at::Tensor& g, const at::Tensor& weight,
                                                              const at::Tensor& p);

}  // namespace siamese
