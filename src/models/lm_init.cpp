#include "models/lm_init.h"

#include <cmath>

namespace siamese {

double embedding_deviation(const ModelConfig& c) {
  return c.init.kind == "mitchell" ? 1.0 / std::sqrt(static_cast<double>(c.d_model)) : c.init.std;
}

double head_deviation(const ModelConfig& c) {
  return c.init.kind == "normal" ? c.init.std : 1.0 / std::sqrt(static_cast<double>(c.d_model));
}

InitSpec Initialiser::of(Role role, int64_t fan_in) const {
  const bool output = role == Role::output || role == Role::ff_out;
  const int blocks = static_cast<int>(config_.n_layers);
  double deviation = config_.init.std, depth = 1.0;
  if (config_.init.kind == "mitchell") {
    deviation = 1.0 / std::sqrt(static_cast<double>(fan_in));
    if (output) depth = 1.0 / std::sqrt(2.0 * (block_ + 1));
  } else if (config_.init.kind == "full_megatron" && output) {
    depth = 1.0 / std::sqrt(2.0 * blocks);
  }
  return {InitSpec::normal, deviation * scheme_.init_scale(role, block_, blocks).value_or(depth), config_.init.cutoff};
}

InitSpec Initialiser::qkv(int64_t value_row) const {
  InitSpec spec = of(Role::query_key, config_.d_model);
  const InitSpec value = of(Role::value, config_.d_model);
  spec.split = value_row;
  spec.split_scale = value.value / spec.value;
  return spec;
}

}  // namespace siamese
