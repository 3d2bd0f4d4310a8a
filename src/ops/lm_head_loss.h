// The head of a language model and its loss as one registered operator `siamese::lm_head_loss`, with a plain fallback.
//   z = hidden·weightᵀ;  ce = mean of logsumexp(z) - z[target] over the rows whose target is not `ignore`
//   total = scale·(ce + z_weight·mean of logsumexp(z)² over all rows)
// The rows go through in chunks, so that the logits never exist as a whole, and since the loss is the end of the
// network the same pass takes the gradients of hidden and weight; the backward pass only hands them out, times the
// incoming gradient, which is free where that is 1. They are handed out once: a retained graph cannot be walked again.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

struct HeadLossOptions {
  int64_t ignore = -100;
  double z_weight = 0.0;
  double scale = 1.0;      // of `total` and so of every gradient: 1/micro-batches costs nothing here
  int64_t chunk_rows = 0;  // rows of logits at a time; 0: by size
};

struct HeadLoss {
  at::Tensor total;  // what is differentiated
  at::Tensor ce;     // for reports; without a gradient where fused
};

/// hidden [N, d], weight [V, d] of one type, targets [N] int64. A row of bf16 logits has bf16 gradients; sums are taken
/// in fp32, the gradient of the weight over several chunks too. fp64 on a GPU takes the plain path.
HeadLoss lm_head_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                      const HeadLossOptions& options = {}, bool fused = true);
HeadLoss lm_head_loss_plain(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                            const HeadLossOptions& options = {});

/// Rows a chunk of logits has when the caller does not say: all chunks about equal, 0.85 GB on a GPU, 64 MB on the CPU.
int64_t head_chunk_rows(int64_t rows, int64_t vocab, int64_t value_bytes, bool gpu);

}  // namespace siamese
