#include "models/init.h"

#include <cmath>

namespace siamese {

double embedding_deviation(const ModelConfig& c) {
  return c.init.kind == "mitchell" ? 1.0 / std::sqrt(static_cast<double>(c.d_model)) : c.init.std;
}

double head_deviation(const ModelConfig& c) {
  return c.init.kind == "normal" ? c.init.std : 1.0 / std::sqrt(static_cast<double>(c.d_model));
}

InitSpec xavier(int64_t in, int64_t out) { return {InitSpec::uniform, std::sqrt(6.0 / static_cast<double>(in + out))}; }

InitSpec Initialiser::of(Role role, int64_t in, int64_t out) const {
  const bool output = role == Role::output || role == Role::ff_out;
  const int blocks = static_cast<int>(config_.n_layers);
  InitSpec spec{InitSpec::normal, config_.init.std, config_.init.cutoff};
  double depth = 1.0;
  if (config_.init.kind == "mitchell") {
    spec.value = 1.0 / std::sqrt(static_cast<double>(in));
    if (output) depth = 1.0 / std::sqrt(2.0 * (block_ + 1));
  } else if (config_.init.kind == "full_megatron" && output) {
    depth = 1.0 / std::sqrt(2.0 * blocks);
  } else if (config_.init.kind == "xavier") {
    spec = xavier(in, out);
  }
  spec.value *= scheme_.init_scale(role, block_, blocks).value_or(depth);
  return spec;
}

InitSpec Initialiser::qkv(int64_t value_row, int64_t out) const {
  InitSpec spec = of(Role::query_key, config_.d_model, out);
  const InitSpec value = of(Role::value, config_.d_model, out);
  spec.split = value_row;
  spec.split_scale = value.value / spec.value;
  return spec;
}

}  // namespace siamese
