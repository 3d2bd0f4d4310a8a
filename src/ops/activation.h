// Feed-forward activations as registered operators `siamese::activation` and `siamese::activation_backward`
// (kernels/swiglu.h, kernels/cuda/activation.h have the formulas), with a plain fallback; and activation followed by a
// product, which on the GPU keeps what goes into the activation and nothing else.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace siamese {

enum class Activation { swiglu, gelu, gelu_tanh };

/// p [..., 2·width] -> first half · silu(second half) for swiglu, p·Φ(p) otherwise.
at::Tensor activate(const at::Tensor& p, Activation kind, bool fused = true);
at::Tensor activate_plain(const at::Tensor& p, Activation kind);

/// The gradient of p for that of activate(p), and activate(p) again where wanted (otherwise empty).
std::tuple<at::Tensor, at::Tensor> activation_backward(const at::Tensor& g, const at::Tensor& p, Activation kind,
                                                       bool want_output);

/// Whether the GPU has a kernel for p: fp32 or bf16, an output of multiples of 8 columns.
bool activation_has_kernel(const at::Tensor& p, int64_t kind);
// The operators where it has none, below autograd.
at::Tensor activation_forward_plain(const at::Tensor& p, int64_t kind);
std::tuple<at::Tensor, at::Tensor> activation_backward_plain(const at::Tensor& g, const at::Tensor& p, int64_t kind,
                                                             bool want_output);

/// activate(p)·Wᵀ + b. `activated` is activate(p) where whoever made p had it at hand (ops/gemm_swiglu.h).
at::Tensor activate_and_project(const at::Tensor& p, Activation kind, const at::Tensor& weight, const at::Tensor& bias,
                                bool fused = true, const at::Tensor& activated = {});

}  // namespace siamese
