// A matrix with an optional bias.
#pragma once

#include "nn/params.h"
#include "ops/linear.h"

namespace siamese {

struct Linear {
  at::Tensor weight, bias;

  static Linear make(Params& params, const std::string& name, int64_t in, int64_t out, bool bias,
                     const InitSpec& init) {
    Linear l;
    l.weight = params.add(name + ".weight", {out, in}, ParamKind::matrix, init);
    if (bias) l.bias = params.add(name + ".bias", {out}, ParamKind::other, {InitSpec::constant, 0.0});
    return l;
  }
  at::Tensor operator()(const at::Tensor& x) const { return project(x, weight, bias); }
};

}  // namespace siamese
