// What the tests of mixtures share: tiny ones with random weights.
#pragma once

#include "leaves.h"
#include "nn/mixture.h"
#include "scheme_cases.h"

namespace siamese {

/// A tiny model with 4 experts a block, of which 2 see a token; the losses weigh enough to show in gradients.
inline ModelConfig mixture_config(const std::string& scheme = "siamese_hybrid") {
  ModelConfig c = scheme_config(scheme);
  c.moe.experts = 4;
  c.moe.top_k = 2;
  c.moe.expert_hidden_size = 12;
  c.moe.balance_weight = 0.5;
  c.moe.router_z_weight = 0.1;
  return c;
}

/// A mixture alone, of 5 experts on width 6, its parameters leaves in fp64.
inline Mixture lone_mixture(const MoeConfig& moe, bool with_bias = false) {
  constexpr int64_t d = 6, hidden = 8;
  Mixture m;
  m.config = moe;
  m.config.experts = 5;
  m.config.expert_hidden_size = hidden;
  const auto leaf = [](at::IntArrayRef shape, int64_t number) {
    return random_normal(shape, number).set_requires_grad(true);
  };
  m.router = leaf({5, d}, 11);
  m.w1 = leaf({5, hidden, d}, 12);
  m.w2 = leaf({5, d, hidden / 2}, 13);
  if (with_bias) m.bias = 3 * random_normal({5}, 14);
  if (moe.shared_experts > 0) {
    m.shared.in.weight = leaf({moe.shared_experts * hidden, d}, 15);
    m.shared.out.weight = leaf({d, moe.shared_experts * hidden / 2}, 16);
  }
  return m;
}

}  // namespace siamese
