#include "models/make_mixture.h"

namespace siamese {

Mixture make_mixture(const ModelConfig& config, const Initialiser& init, Params& params, const std::string& name,
                     Activation activation) {
  const MoeConfig& moe = config.moe;
  const int64_t d = config.d_model, hidden = moe.expert_hidden_size,
                width = activation == Activation::swiglu ? hidden / 2 : hidden;
  Mixture m;
  m.config = moe;
  m.activation = activation;
  m.fused = config.fused;
  m.router = params.add_exact(name + "moe.router.weight", {moe.experts, d}, ParamKind::matrix,
                              init.of(Role::query_key, d, moe.experts));
  m.w1 = params.add(name + "moe.w1", {moe.experts, hidden, d}, ParamKind::matrix, init.of(Role::ff_in, d, hidden));
  m.w2 = params.add(name + "moe.w2", {moe.experts, d, width}, ParamKind::matrix, init.of(Role::ff_out, width, d));
  if (moe.balance == "bias")
    m.bias = params.add_exact(name + "moe.balance_bias", {moe.experts}, ParamKind::state, {InitSpec::constant, 0.0});
  if (moe.shared_experts > 0) {
    // As one feed-forward: the sum over shared experts is that over their hidden values.
    m.shared.activation = activation;
    m.shared.fused = config.fused;
    const int64_t all = moe.shared_experts * hidden, inner = moe.shared_experts * width;
    m.shared.in = Linear::make(params, name + "moe.shared_in", d, all, false, init.of(Role::ff_in, d, all));
    m.shared.out = Linear::make(params, name + "moe.shared_out", inner, d, false, init.of(Role::ff_out, inner, d));
  }
  return m;
}

}  // namespace siamese
