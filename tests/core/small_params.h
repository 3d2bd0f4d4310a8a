// One small parameter of each kind with gradients for many steps: what the optimizer's tests work on.
#pragma once

#include <cmath>

#include "tiny.h"

namespace siamese {

inline const InitSpec kZero{InitSpec::constant, 0.0};

/// One parameter of each kind, filled with numbers around 1.
inline Params small_params(at::ScalarType dtype) {
  Params params(dtype, at::kCPU);
  params.add("w", {3, 4}, ParamKind::matrix, kZero);
  params.add("e", {5, 2}, ParamKind::embedding, kZero);
  params.add("g", {4}, ParamKind::norm, kZero);
  params.add("c1", {4}, ParamKind::other, kZero);
  const at::NoGradGuard no_grad;
  int64_t number = 0;
  for (const Parameter& p : params.all())
    at::Tensor(p.value).copy_(uniform(p.value.sizes(), at::kCPU, {1, number++, kTestSite, 0}) + 0.5);
  return params;
}

/// The gradient of parameter i at a step, of both signs and several magnitudes.
inline at::Tensor gradient(const at::Tensor& like, int64_t i, int64_t step) {
  const at::Tensor u = uniform(like.sizes(), at::kCPU, {2, step, kTestSite, 1000 * i});
  return ((u - 0.4) * std::pow(3.0, static_cast<double>(step % 4))).to(like.scalar_type());
}

inline void set_gradients(const Params& params, int64_t step) {
  for (size_t i = 0; i < params.all().size(); ++i) {
    const at::Tensor& p = params.all()[i].value;
    p.mutable_grad() = gradient(p, static_cast<int64_t>(i), step);
  }
}

inline TrainConfig without_clip() {
  TrainConfig t;
  t.clip = 0;
  t.weight_decay = 0.2;
  t.eps = 1e-6;
  return t;
}

}  // namespace siamese
