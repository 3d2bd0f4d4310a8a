// Self-attention: fused QKV, grouped queries, optional norms on q, k and v; causal with rotary positions, or neither.
#pragma once

#include "nn/forward.h"
#include "nn/linear.h"
#include "nn/rope.h"
#include "ops/stream_step.h"
#include "recipe/recipe.h"

namespace siamese {

struct Attention {
  /// From there on the libraries' backward passes are ahead of our kernels' (ops/attention.cpp).
  static constexpr int64_t kLongestBothWays = 3000;

  int64_t block = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double dropout = 0;
  bool fused = true;
  Linear qkv, out;
  Norm q_norm, k_norm, v_norm;    // off, or of width head_dim (per head), or of the whole projection
  bool whole_projection = false;  // which; a norm without a gain does not tell
  const Rope* rope = nullptr;     // none: every token sees every token

  /// From the projection qkv(h) [B, T, (heads + 2 kv heads) · head_dim] to the output [B, T, d]; `turn`: what it came
  /// with.
  at::Tensor operator()(const at::Tensor& projected, const Forward& forward, const Turn& turn = {}) const;

  /// The rotary positions, and the norms before them, that the product with `qkv` may bring along for B x T tokens.
  Turn turn(int64_t batch, int64_t length, const Forward& forward) const;

 private:
  /// Whether attention takes the packed projection as it is, where kernels can.
  bool takes_packed(const Forward& forward) const;
  /// Tokens that look both ways, as they come from the projection: our own kernels.
  bool packs_both_ways(const at::Tensor& projected, const Forward& forward) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Forward& forward) const;
};

}  // namespace siamese
