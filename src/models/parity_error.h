// How far a result is from a golden file's.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "util/error.h"

namespace siamese {

inline double largest_abs(const at::Tensor& t) { return t.numel() == 0 ? 0.0 : t.abs().max().item<double>(); }

/// Errors are taken in fp64 on the CPU whatever the run's type.
inline at::Tensor exact(const at::Tensor& t) { return t.detach().to(at::kCPU, at::kDouble); }

/// The largest max|a-b| / (max|b| + floor) among the tensors added, and whose it is.
struct Worst {
  double error = 0;
  std::string name;
  void add(const at::Tensor& got, const at::Tensor& want, double floor, const std::string& at_name) {
    if (got.numel() != want.numel())
      fail("'{}' has {} values here and {} in the file", at_name, got.numel(), want.numel());
    const at::Tensor a = exact(got).reshape({-1}), b = exact(want).reshape({-1});
    const double e = largest_abs(a - b) / (largest_abs(b) + floor);
    // NaN counts as worst, and stays so.
    if (name.empty() || (!std::isnan(error) && !(e <= error))) error = e, name = at_name;
  }
};

}  // namespace siamese
