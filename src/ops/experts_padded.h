// The experts of a mixture over padded rows (ops/expert_ops.h), as the GPU takes them: products by groups of rows, no
// word from the GPU to the host. ops/experts.h has the formulas; here the weight goes into the activation's output, so
// that the way back is a plain sum.
#pragma once

#include "ops/expert_ops.h"

namespace siamese {

/// x [T, d], weights [T, k], w1 [E, 2·width, d], w2 [E, d, width] -> [T, d]. SwiGLU.
at::Tensor experts_padded(const at::Tensor& x, const PaddedRows& rows, const at::Tensor& weights, const at::Tensor& w1,
                          const at::Tensor& w2);

}  // namespace siamese
