// The gradients of a product, for autograd's functions around one.
#pragma once

#include "ops/gemm.h"

namespace siamese {

/// Of x and W where y = x·Wᵀ has g, those that are wanted, first among the inputs' `count`.
inline torch::autograd::variable_list product_backward(const torch::autograd::AutogradContext& ctx, const at::Tensor& g,
                                                       const at::Tensor& x, const at::Tensor& weight, size_t count) {
  torch::autograd::variable_list result(count);
  if (ctx.needs_input_grad(0)) result[0] = gemm(g, weight, false, false).view(x.sizes());
  if (ctx.needs_input_grad(1)) result[1] = gemm(g, x.reshape({-1, x.size(-1)}), true, false);
  return result;
}

}  // namespace siamese
