// A mixture of experts in place of a feed-forward. Of a token x [d]:
//   logits = W_r x in fp32;  s = softmax(logits) or sigmoid(logits);  chosen: the top k of s + b
//   r = Σ_chosen s_e · expert_e(x) + Σ shared experts(x);  expert_e(x) = W2_e · activation(W1_e x)
// b is 0, or the bias that keeps experts equally busy; it decides who is chosen, never by how much. With `renormalize`
// the chosen s_e are divided by their sum. Two losses, over the T tokens of a micro-batch, n_e of them sent to expert
// e:
//   balance = E · Σ_e (n_e/(T·k)) · mean p_e, p = s/Σs;    z = mean logsumexp(logits)²
// The counts are not differentiated. Nobody is dropped, unless training has a capacity: then an expert takes its first
// ceil(capacity_factor · T·k/E) tokens, and the others miss its share of r.
#pragma once

#include "nn/feed_forward.h"
#include "nn/forward.h"
#include "recipe/recipe.h"

namespace siamese {

struct Mixture {
  MoeConfig config;
  int64_t block = 0;
  at::Tensor router;   // [E, d], fp32 under bf16
  at::Tensor bias;     // [E] fp32, undefined: balanced otherwise
  at::Tensor w1, w2;   // [E, hidden, d], [E, d, width]: the first dimension is the expert's, in weights and in loads
  FeedForward shared;  // all shared experts side by side
  Activation activation = Activation::swiglu;
  bool fused = true;

  bool on() const { return w1.defined(); }
  /// z [..., d] -> r. Losses and loads go to forward.routing where there is one.
  at::Tensor operator()(const at::Tensor& z, const Forward& forward) const;
};

/// b_e += rate · sign(mean load - load_e); load [E].
void move_bias(at::Tensor bias, const at::Tensor& load, double rate);

}  // namespace siamese
