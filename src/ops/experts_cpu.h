// The experts on a CPU: rows gathered by memory copies, one product an expert, a backward pass of its own.
#pragma once

#include "ops/experts.h"

namespace siamese {

/// fp32, fp64 or bf16.
at::Tensor experts_cpu(const at::Tensor& x, const ExpertRows& rows, const at::Tensor& weights, const at::Tensor& w1,
                       const at::Tensor& w2, Activation kind);

}  // namespace siamese
