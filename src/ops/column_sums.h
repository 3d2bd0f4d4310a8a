// Σ over all but the last dimension as a registered operator, `siamese::column_sums`: the gradient of a bias.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

/// t [..., n] -> [n] in t's type, added in fp32 or better.
at::Tensor column_sums(const at::Tensor& t);

}  // namespace siamese
