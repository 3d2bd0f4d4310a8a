// The router's product in fp32 by bf16 tensor cores. x is in bf16, W in fp32 is the sum of three parts in bf16, exactly
// (8 of its 24 bits each), and products of bf16 numbers are exact in fp32: what remains is the rounding of fp32 sums.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

/// t in fp32 as the sum of three tensors in bf16, side by side along a new first dimension.
at::Tensor bf16_parts(const at::Tensor& t);

/// x [T, d] in bf16 times W [E, d] in fp32: [T, E] in fp32. The gradients are as exact; x's is in bf16.
at::Tensor router_product(const at::Tensor& x, const at::Tensor& w);

}  // namespace siamese
