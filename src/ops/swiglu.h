// SwiGLU as a registered operator `siamese::swiglu` (kernels/swiglu.h has the formulas), with a plain fallback.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

/// p [..., 2·width] -> first half · silu(second half).
at::Tensor swiglu(const at::Tensor& p, bool fused = true);
at::Tensor swiglu_plain(const at::Tensor& p);

}  // namespace siamese
