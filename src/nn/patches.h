// Between pictures and rows of tokens.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

/// images [B, C, H, W] -> patches [B, (H/p)·(W/p), C·p·p], a patch's values in the order of a convolution's weight.
at::Tensor to_patches(const at::Tensor& images, int64_t patch);
/// The reverse for tokens [B, (side)², p·p·C] whose columns are (row, column, channel), channel fastest: the order in
/// which DiT's last layer has them.
at::Tensor from_patches(const at::Tensor& tokens, int64_t patch, int64_t channels);

/// Fixed positions [side², d]: the first half of d encodes the column, the second the row, each [sin, cos] of
/// pos·10000^(-i/(d/4)). In fp64.
at::Tensor sine_positions(int64_t side, int64_t d);

/// Learned positions [1, prefix + n², d] for another resolution, [1, prefix + side², d]: the first `prefix` tokens
/// stay, the others are interpolated as a picture (bicubic).
at::Tensor resize_positions(const at::Tensor& positions, int64_t prefix, int64_t side);

}  // namespace siamese
