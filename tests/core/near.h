// Closeness of tensors, element by element.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ops/stream_step.h"

namespace siamese {

inline double largest(const at::Tensor& t) { return t.numel() == 0 ? 0.0 : t.detach().abs().max().item<double>(); }

/// |got - want| ≤ relative·|want| + absolute·max(1, max|want|), element by element.
inline void expect_near(const at::Tensor& got, const at::Tensor& want, double relative, double absolute,
                        const std::string& what) {
  ASSERT_EQ(got.defined(), want.defined()) << what;
  if (!got.defined()) return;
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const at::Tensor a = got.detach().to(at::kCPU, at::kDouble), b = want.detach().to(at::kCPU, at::kDouble);
  const double scale = std::max(1.0, largest(b));
  const at::Tensor excess = (a - b).abs() - (b.abs() * relative + absolute * scale);
  EXPECT_LE(excess.max().item<double>(), 0.0)
      << what << ": scale " << scale << ", largest difference " << largest(a - b);
}

inline void expect_near(const StreamStepOutput& got, const StreamStepOutput& want, double relative, double absolute) {
  expect_near(got.z, want.z, relative, absolute, "z");
  expect_near(got.x, want.x, relative, absolute, "x");
  expect_near(got.y, want.y, relative, absolute, "y");
}

}  // namespace siamese
