// What the CUDA sides of the hyper-connections' step share.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "ops/cuda/tensors.h"
#include "ops/hyper_step_call.h"

namespace siamese {

inline at::Tensor aligned(const OptionalTensor& t) { return aligned(given(t)); }

inline const float* floats(const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }
inline float* result_floats(const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr<float>() : nullptr; }

/// H with the distances, in elements, between tokens and between streams. Streams that begin as one tensor need no
/// copies.
struct StreamView {
  at::Tensor h;
  int64_t token_stride, stream_stride;
  explicit StreamView(const at::Tensor& streams) {
    const int64_t n = streams.size(-2), d = streams.size(-1);
    const at::Tensor one = streams.select(-2, 0);
    const bool shared = n > 1 && streams.stride(-2) == 0 && one.is_contiguous();
    h = aligned(shared ? one : streams);
    token_stride = shared ? d : n * d;
    stream_stride = shared ? 0 : d;
  }
};

/// Where ρ of N stands in a row of `saved`.
inline int saved_rho(const HyperSizes& s) {
  if (s.kind == HyperKind::dynamic) return static_cast<int>(s.n * (s.n + 2) + s.n);
  return s.kind == HyperKind::mhc ? static_cast<int>(hyper_columns(s.kind, s.n) + 1) : 0;
}

/// mhc_step_cuda.cpp
void mhc_forward_gpu(const HyperSizes& sizes, const HyperOutputs& out, SIAMESE_HYPER_ARGS);
std::vector<at::Tensor> mhc_backward_gpu(const HyperSizes& sizes, SIAMESE_HYPER_BACKWARD_ARGS);

}  // namespace siamese
