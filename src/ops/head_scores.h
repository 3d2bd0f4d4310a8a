// How well the head of a language model predicts, without gradients: the sum of the cross entropy and how often the
// most likely token was the right one. The rows go through in chunks (ops/lm_head_loss.h): the logits never exist as a
// whole.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/lm_head_loss.h"

namespace siamese {

struct HeadScores {
  at::Tensor loss;   // fp64 number: sum over the rows whose target is not `ignore`
  at::Tensor right;  // int64 number: of those, how many have their largest logit at the target
};

/// hidden [N, d], weight [V, d], targets [N] int64. Both results stay on the device. Of the options, z_weight and scale
/// have no meaning here.
HeadScores head_scores(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                       const HeadLossOptions& options = {}, bool fused = true);

}  // namespace siamese
