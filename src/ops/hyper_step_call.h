// What the registrations of `siamese::hyper_step` share: the arguments of a call, checked, and the shapes of its
// results.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <tuple>
#include <vector>

#include "ops/hyper_step.h"

namespace siamese {

using OptionalTensor = std::optional<at::Tensor>;
using HyperOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;  // z, H', A', B', saved

#define SIAMESE_HYPER_ARGS                                                                                       \
  const at::Tensor &h, const OptionalTensor &residual, const OptionalTensor &write, const OptionalTensor &r,     \
      const OptionalTensor &gain, const OptionalTensor &map_gain, at::TensorList maps, int64_t kind, double eps, \
      double map_eps, bool norm
#define SIAMESE_HYPER_NAMES h, residual, write, r, gain, map_gain, maps, kind, eps, map_eps, norm

#define SIAMESE_HYPER_BACKWARD_ARGS                                                                              \
  const OptionalTensor &g_z, const OptionalTensor &g_h, const OptionalTensor &g_write, const at::Tensor &h,      \
      const at::Tensor &saved, const OptionalTensor &write, const OptionalTensor &r, const OptionalTensor &gain, \
      const OptionalTensor &map_gain, at::TensorList maps, int64_t kind, bool norm
#define SIAMESE_HYPER_BACKWARD_NAMES g_z, g_h, g_write, h, saved, write, r, gain, map_gain, maps, kind, norm

/// Order of the gradients that the backward operator returns, those of `maps` last.
enum HyperGradient { kHyperGradH, kHyperGradWrite, kHyperGradR, kHyperGradGain, kHyperGradMapGain, kHyperGradMaps };

struct HyperSizes {
  HyperKind kind;
  int64_t tokens, n, d;
  std::vector<int64_t> lead;  // [...]

  at::ScalarType exact;  // fp32, fp64 for fp64 streams
  std::vector<int64_t> shape(at::IntArrayRef last) const {
    std::vector<int64_t> s = lead;
    s.insert(s.end(), last.begin(), last.end());
    return s;
  }
};

HyperSizes hyper_sizes(const at::Tensor& h, int64_t kind);
/// Throws unless the kernels can read what they are given.
HyperSizes check_hyper_step(SIAMESE_HYPER_ARGS);
/// All results, uninitialised; maps that do not exist have no elements (a schema cannot return optionals).
HyperOutputs allocate_hyper_step(const at::Tensor& h, const HyperSizes& sizes);
/// Gradients with empty tensors in place of undefined ones, whose inputs are absent: a list cannot hold those either.
std::vector<at::Tensor> without_gaps(std::vector<at::Tensor> gradients, const at::Tensor& h);

/// The operators by LibTorch operations, below autograd, on any device.
HyperOutputs hyper_step_plain(SIAMESE_HYPER_ARGS);
std::vector<at::Tensor> hyper_step_backward_plain(SIAMESE_HYPER_BACKWARD_ARGS);

/// Undefined for an absent tensor.
inline at::Tensor given(const OptionalTensor& t) { return t.value_or(at::Tensor()); }
inline at::Tensor given_dense(const OptionalTensor& t) { return t && t->defined() ? t->contiguous() : at::Tensor(); }

}  // namespace siamese
