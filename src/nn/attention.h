// Causal self-attention: fused QKV, grouped queries, RoPE, optional norms on q, k and v.
#pragma once

#include "nn/forward.h"
#include "nn/linear.h"
#include "nn/rope.h"
#include "ops/stream_step.h"
#include "recipe/recipe.h"

namespace siamese {

struct Attention {
  int64_t block = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double dropout = 0;
  bool fused = true;
  Linear qkv, out;
  Norm q_norm, k_norm, v_norm;    // off, or of width head_dim (per head), or of the whole projection
  bool whole_projection = false;  // which; a norm without a gain does not tell
  const Rope* rope = nullptr;

  /// From the projection qkv(h) [B, T, (heads + 2 kv heads) · head_dim] to the output [B, T, d].
  at::Tensor operator()(const at::Tensor& projected, const Forward& forward) const;

 private:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Forward& forward) const;
};

}  // namespace siamese
