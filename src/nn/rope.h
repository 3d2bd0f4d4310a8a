// Rotary positions: the table of angles and where it is applied (ops/rope.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace siamese {

class Rope {
 public:
  Rope(int64_t head_dim, double theta) : head_dim_(head_dim), theta_(theta) {}

  /// t [B, T, heads, head_dim] at positions first … first+T-1. Angles in fp32 (fp64 for fp64).
  at::Tensor operator()(const at::Tensor& t, int64_t first, bool fused) const;

  /// cos and sin [length, head_dim/2] of positions 0 … length-1 in fp32 (fp64 where `like` is).
  std::pair<at::Tensor, at::Tensor> angles(int64_t length, const at::Tensor& like) const {
    const auto [cos, sin] = table(length, like);
    return {cos.slice(0, 0, length), sin.slice(0, 0, length)};
  }

 private:
  /// cos and sin [T, head_dim/2], kept for the longest T asked for.
  std::pair<at::Tensor, at::Tensor> table(int64_t length, const at::Tensor& like) const;

  int64_t head_dim_;
  double theta_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::pair<at::Tensor, at::Tensor>> tables_;  // by device and type
};

}  // namespace siamese
