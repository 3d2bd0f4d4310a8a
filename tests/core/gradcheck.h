// Finite differences against autograd, in fp64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "leaves.h"

namespace siamese {

/// Compares autograd with central differences of `loss` along two random directions a leaf. The error is taken relative
/// to the leaf's gradient norm, which is what a derivative along a direction of unit variance is large as, or to a
/// thousandth of the largest norm among the leaves, so that a gradient that is truly zero passes and a missing one does
/// not. The leaves are changed in place and restored.
inline void expect_gradients(const std::function<at::Tensor()>& loss, const NamedLeaves& leaves,
                             double tolerance = 1e-6) {
  const OneThread one_thread;
  torch::autograd::variable_list tensors;
  for (const auto& [name, leaf] : leaves) {
    ASSERT_EQ(leaf.scalar_type(), at::kDouble) << name;
    ASSERT_TRUE(leaf.is_leaf() && leaf.requires_grad()) << name;
    tensors.push_back(leaf);
  }
  const at::Tensor value = loss();
  ASSERT_EQ(value.numel(), 1);
  ASSERT_TRUE(std::isfinite(value.item<double>()));
  torch::autograd::variable_list grads =
      torch::autograd::grad({value}, tensors, {}, false, false, /*allow_unused=*/true);

  const at::NoGradGuard no_grad;
  double largest = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!grads[i].defined()) grads[i] = at::zeros_like(tensors[i]);
    largest = std::max(largest, grads[i].norm().item<double>());
  }
  // A step of 1e-5: rounding gives 1e-11 of the loss, the cubic term 1e-10 of its third derivative. Where that is large
  // (a norm of small values) a tenth of the step tells curvature from a wrong gradient.
  for (size_t i = 0; i < leaves.size(); ++i) {
    at::Tensor leaf = tensors[i];
    const at::Tensor saved = leaf.clone();
    const double norm = grads[i].norm().item<double>();
    for (int64_t d = 0; d < 2; ++d) {
      const at::Tensor v = random_normal(leaf.sizes(), static_cast<int64_t>(2 * i) + d);
      const double analytic = (grads[i] * v).sum().item<double>();
      auto at_step = [&](double h) {
        leaf.copy_(saved + v * h);
        return loss().item<double>();
      };
      double numeric = 0, error = 0;
      for (const double h : {1e-5, 1e-6}) {
        numeric = (at_step(h) - at_step(-h)) / (2 * h);
        error = std::abs(numeric - analytic) / std::max({norm, std::abs(numeric), 1e-3 * largest, 1e-12});
        if (error <= tolerance) break;
      }
      leaf.copy_(saved);
      EXPECT_LE(error, tolerance) << leaves[i].first << ": finite difference " << numeric << ", autograd " << analytic;
    }
  }
}

}  // namespace siamese
