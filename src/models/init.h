// Initial values of a model's matrices.
//   mitchell:      1/sqrt(d); attention output 1/sqrt(2d(l+1)), feed-forward output 1/sqrt(2·d_ff·(l+1))
//   normal:        std everywhere
//   full_megatron: std; both output projections std/sqrt(2L); untied head 1/sqrt(d)
//   xavier:        uniform in ±sqrt(6/(in + out))
// Normal ones are truncated at `cutoff` deviations. A scheme with an init of its own replaces the depth factor.
#pragma once

#include "nn/params.h"
#include "recipe/recipe.h"
#include "residual/scheme.h"

namespace siamese {

double embedding_deviation(const ModelConfig& config);
double head_deviation(const ModelConfig& config);

/// Uniform in ±sqrt(6/(in + out)).
InitSpec xavier(int64_t in, int64_t out);

/// For the matrices of one block.
class Initialiser {
 public:
  Initialiser(const ModelConfig& config, const Scheme& scheme, int block)
      : config_(config), scheme_(scheme), block_(block) {}
  InitSpec of(Role role, int64_t in, int64_t out) const;
  /// The fused QKV: the value rows begin at `value_row` and may have a scale of their own.
  InitSpec qkv(int64_t value_row, int64_t out) const;

 private:
  const ModelConfig& config_;
  const Scheme& scheme_;
  int block_;
};

}  // namespace siamese
