// Launchers of AdamW over all parameters at once. They use device memory only, at the addresses they are given, and
// never wait, read back or allocate: a step can be captured in a CUDA graph and replayed.
//
//   norm  = sqrt(sum g²)                       in a fixed order: the same bits on every run
//   scale = clip / (norm + 1e-6) where norm > clip > 0, else 1
//   p -= lr·decay·p                           lr: times the tensor's own factor
//   m += (1 - beta1)·(scale·g - m)
//   v  = beta2·v + (1 - beta2)·(scale·g)²
//   p -= lr / (1 - beta1^t) · m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   average += (1 - ema)·(p - average)
//
// Where the loss or the norm is not finite nothing is updated, and nothing ever after: control.bad_step says since
// when.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/adamw_table.h"

namespace siamese::kernels {

struct AdamwTables {
  const AdamwTensor* tensors;
  const AdamwGradient* gradients;  // one a tensor
  const AdamwChunk* chunks;
  int64_t chunk_count;
};

/// Sets learning rate and number of the coming step. The only launch whose arguments change from step to step: it stays
/// outside of a captured graph.
cudaError_t adamw_plan_cuda(AdamwControl* control, double lr, double step, cudaStream_t stream);

/// sums = gradients, or sums += gradients, in fp32; a tensor's begin at its `offset`.
cudaError_t adamw_accumulate_cuda(const AdamwTables& tables, float* sums, bool add, cudaStream_t stream);

/// Norm, clip and update. `partials` has room for a float a chunk; `loss` may be null.
cudaError_t adamw_step_cuda(const AdamwTables& tables, AdamwControl* control, float* partials, const double* loss,
                            cudaStream_t stream);

}  // namespace siamese::kernels
