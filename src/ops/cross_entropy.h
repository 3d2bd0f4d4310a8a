// The cross entropy of rows of logits as a registered operator (kernels/cross_entropy.h has the formulas): the part of
// `lm_head_loss` that has kernels of its own. No autograd: the gradient is what it writes.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

struct CrossEntropyFactors {
  int64_t ignore = -100;
  double scale = 1, z_factor = 0;
};

/// logits [rows, vocab] become their gradient where `gradient` is true. targets [rows]; count: a number, how many of
/// the batch's targets count; losses and squares [rows] are written. All contiguous; count, losses and squares in fp32,
/// or in fp64 for fp64 logits.
void cross_entropy_rows_(at::Tensor logits, const at::Tensor& targets, const at::Tensor& count, at::Tensor losses,
                         at::Tensor squares, const CrossEntropyFactors& factors, bool gradient);

/// values ← values·factor for a factor of one element; free where that is exactly 1, and no host reads it on a GPU.
at::Tensor scale_by_(at::Tensor values, const at::Tensor& factor);

}  // namespace siamese
