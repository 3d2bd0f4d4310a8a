// Feed-forward activations as registered operators `siamese::activation` and `siamese::activation_backward`
// (kernels/swiglu.h, kernels/cuda/activation.h have the formulas), with a plain fallback; and activation followed by a
// product, which on the GPU keeps what goes into the activation and nothing else.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

enum class Activation { swiglu, gelu, gelu_tanh };

/// p [..., 2·width] -> first half · silu(second half) for swiglu, p·Φ(p) otherwise.
at::Tensor activate(const at::Tensor& p, Activation kind, bool fused = true);
at::Tensor activate_plain(const at::Tensor& p, Activation kind);

/// activate(p)·Wᵀ + b
at::Tensor activate_and_project(const at::Tensor& p, Activation kind, const at::Tensor& weight, const at::Tensor& bias,
                                bool fused = true);

}  // namespace siamese
