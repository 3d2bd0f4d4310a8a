// Rotary positions as a registered operator `siamese::rope` (kernels/rope.h has the formula), with a plain fallback.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

/// t [B, T, heads, dim]; cos, sin [T, dim/2] in fp32 (fp64 for fp64 t).
at::Tensor rope(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin, bool fused = true);
at::Tensor rope_plain(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace siamese
