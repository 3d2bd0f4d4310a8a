// Cross entropy of rows of logits z, with the gradient written over the logits.
//   lse = log Σ_j exp(z_j);  loss = lse - z_t, or 0 where the target t is ignored;  square = lse²
// What is differentiated, over all rows of a batch of which `count` have a target that is not ignored:
//   total = scale·(Σ loss / count + z_weight·Σ square / rows)
//   g_j = exp(z_j - lse)·(hit + z_factor·lse) - [j = t]·hit
//   hit = scale/count, or 0 where t is ignored;  z_factor = 2·scale·z_weight/rows
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace siamese::kernels {

template <class T>
struct CrossEntropy {
  T* logits = nullptr;                                // [rows, vocab]
  const int64_t* targets = nullptr;                   // [rows], in [0, vocab) or `ignore`
  compute_t<T>*losses = nullptr, *squares = nullptr;  // [rows]
  int64_t vocab = 0, ignore = 0;
  compute_t<T> hit = 0, z_factor = 0;  // hit: of a row that counts
  bool gradient = false;               // false: the logits stay as they are
};

/// Rows begin … end-1; scratch [vocab] is used where the logits are bf16.
template <class T>
void cross_entropy_rows(const CrossEntropy<T>& p, int64_t begin, int64_t end, compute_t<T>* scratch);

}  // namespace siamese::kernels
