#include "kernels/cuda/scale.h"

#include "kernels/cuda/partial.cuh"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 2048;  // a few for each multiprocessor: little to start when there is nothing to do

template <class T>
__global__ void __launch_bounds__(kThreads) scale_kernel(T* values, int64_t n, const float* factor) {
  const float f = *factor;
  if (f == 1.f) return;
  const bool aligned = reinterpret_cast<uintptr_t>(values) % 16 == 0;
  const int64_t step = 8 * static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x); i < n; i += step) {
    const bool whole = aligned && n - i >= 8;
    Float8 v = load_part(values + i, n - i, whole);
#pragma unroll
    for (int j = 0; j < 8; ++j) v.v[j] *= f;
    store_part(values + i, v, n - i, whole);
  }
}

template <class T>
cudaError_t launch(void* values, int64_t n, const float* factor, cudaStream_t stream) {
  const int64_t blocks = (n + 8 * kThreads - 1) / (8 * kThreads);
  scale_kernel<<<static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads, 0, stream>>>(
      static_cast<T*>(values), n, factor);
  return cudaGetLastError();
}

}  // namespace

cudaError_t scale_cuda(void* values, int type, int64_t n, const float* factor, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  if (type == 0) return launch<float>(values, n, factor, stream);
  return type == 2 ? launch<bfloat>(values, n, factor, stream) : cudaErrorInvalidValue;
}

}  // namespace siamese::kernels
