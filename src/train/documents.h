// Where documents end in a batch, so that attention stays inside them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "nn/forward.h"

namespace siamese {

/// Documents in the tokens of all rows, one row after the other. A document ends after each `eos` and with its row.
struct DocumentEnds {
  std::vector<int32_t> ends;  // begins with 0: document i is tokens ends[i] … ends[i+1] - 1
  int64_t longest = 0;
};

/// ids [B, T], int64, on the CPU; rows may be strided.
DocumentEnds document_ends(const at::Tensor& ids, int64_t eos);

/// Fills in what masks documents for ids [B, T] (on the CPU) on `device`: the number of each token's document, the ends
/// on the host and, on a GPU, for attention of variable length, where they go without waiting.
void mask_documents(Forward& forward, const at::Tensor& ids, int64_t eos, at::Device device);

}  // namespace siamese
