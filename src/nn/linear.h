// A matrix with an optional bias.
#pragma once

#include <ATen/ops/linear.h>

#include "nn/params.h"

namespace siamese {

struct Linear {
  at::Tensor weight, bias;

  static Linear make(Params& params, const std::string& name, int64_t in, int64_t out, bool bias, const InitSpec& init) {
    Linear l;
    l.weight = params.add(name + ".weight", {out, in}, ParamKind::matrix, init);
    if (bias) l.bias = params.add(name + ".bias", {out}, ParamKind::other, {InitSpec::constant, 0.0});
    return l;
  }
  at::Tensor operator()(const at::Tensor& x) const {
    return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  }
};

}  // namespace siamese
