#include "nn/rope.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/rope.h"

namespace siamese {

std::pair<at::Tensor, at::Tensor> Rope::table(int64_t length, const at::Tensor& like) const {
  const auto type = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::lock_guard lock(mutex_);
  auto& entry = tables_[like.device().str() + c10::toString(type)];
  if (!entry.first.defined() || entry.first.size(0) < length) {
    const int64_t rows = std::max<int64_t>(length, entry.first.defined() ? 2 * entry.first.size(0) : 64);
    const auto options = like.options().dtype(type).requires_grad(false);
    const at::Tensor i = at::arange(0, head_dim_, 2, options);
    const at::Tensor frequency = 1.0 / at::pow(at::scalar_tensor(theta_, options), i / static_cast<double>(head_dim_));
    const at::Tensor angle = at::outer(at::arange(rows, options), frequency);
    entry = {angle.cos(), angle.sin()};
  }
  return entry;
}

at::Tensor Rope::operator()(const at::Tensor& t, int64_t first, bool fused) const {
  const auto [cos, sin] = table(first + t.size(1), t);
  return rope(t, cos.slice(0, first, first + t.size(1)), sin.slice(0, first, first + t.size(1)), fused);
}

}  // namespace siamese
