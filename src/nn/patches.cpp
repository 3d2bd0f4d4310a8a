#include "nn/patches.h"

#include <ATen/ATen.h>

#include <cmath>

#include "util/error.h"

namespace siamese {

at::Tensor to_patches(const at::Tensor& images, int64_t p) {
  const int64_t b = images.size(0), c = images.size(1), h = images.size(2) / p, w = images.size(3) / p;
  return images.view({b, c, h, p, w, p}).permute({0, 2, 4, 1, 3, 5}).reshape({b, h * w, c * p * p});
}

at::Tensor from_patches(const at::Tensor& tokens, int64_t p, int64_t c) {
  const int64_t b = tokens.size(0), side = std::llround(std::sqrt(static_cast<double>(tokens.size(1))));
  return tokens.view({b, side, side, p, p, c}).permute({0, 5, 1, 3, 2, 4}).reshape({b, c, side * p, side * p});
}

at::Tensor sine_positions(int64_t side, int64_t d) {
  const int64_t quarter = d / 4;
  const at::Tensor i = at::arange(quarter, at::kDouble), pos = at::arange(side, at::kDouble);
  const at::Tensor angle = pos.unsqueeze(1) * at::exp(i * (-std::log(10000.0) / static_cast<double>(quarter)));
  const at::Tensor one = at::cat({angle.sin(), angle.cos()}, 1);  // [side, d/2]
  const at::Tensor column = one.unsqueeze(0).expand({side, side, d / 2}), row = one.unsqueeze(1).expand_as(column);
  return at::cat({column, row}, 2).reshape({side * side, d});
}

at::Tensor resize_positions(const at::Tensor& positions, int64_t prefix, int64_t side) {
  const int64_t d = positions.size(2), from = positions.size(1) - prefix;
  const int64_t before = std::llround(std::sqrt(static_cast<double>(from)));
  if (before * before != from) fail("{} positions besides {} tokens are no square", from, prefix);
  if (before == side) return positions;
  const at::Tensor grid = positions.slice(1, prefix).to(at::kFloat).view({1, before, before, d}).permute({0, 3, 1, 2});
  // Cubic convolution with a = -0.75, the border repeated: what DeiT's code gets from the same function.
  const at::Tensor resized = at::upsample_bicubic2d(grid, {side, side}, /*align_corners=*/false);
  return at::cat({positions.slice(1, 0, prefix),
                  resized.permute({0, 2, 3, 1}).reshape({1, side * side, d}).to(positions.scalar_type())},
                 1);
}

}  // namespace siamese
