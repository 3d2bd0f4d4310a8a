// AdamW over all parameters at once on a CPU: the formulas of kernels/cuda/adamw.h, chunk by chunk. Chunks may be
// shared out among threads; every sum has one order.
#pragma once

#include "kernels/adamw_table.h"

namespace siamese::kernels {

/// Tables as in kernels/cuda/adamw.h, with addresses of the host.
struct AdamwHostTables {
  const AdamwTensor* tensors;
  const AdamwGradient* gradients;
  const AdamwChunk* chunks;
};

/// Chunks begin … end - 1: sums = gradients, or sums += gradients.
void adamw_accumulate(const AdamwHostTables& tables, int64_t begin, int64_t end, float* sums, bool add);
/// partials[chunk] = Σ g².
void adamw_squares(const AdamwHostTables& tables, int64_t begin, int64_t end, float* partials);
/// The norm from all partial sums, and what the update derives from it; `loss` may be null.
void adamw_control(AdamwControl* control, const float* partials, int64_t chunks, const double* loss);
/// The update; nothing after a bad step.
void adamw_update(const AdamwHostTables& tables, int64_t begin, int64_t end, const AdamwControl& control);

}  // namespace siamese::kernels
