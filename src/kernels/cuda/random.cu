// Random fills on the GPU: the same numbers as on the CPU, one thread for the four elements of a philox call.
#include <cuda_bf16.h>

#include "kernels/cuda/random.h"
#include "kernels/random.h"

namespace siamese::kernels {
namespace {

/// Calls f(i, word) for this thread's elements; elements are numbered from draw.offset.
template <class F>
__device__ void for_each_word(int64_t n, const CudaDraw& draw, const F& f) {
  const RandomKey key(draw.seed, draw.step, draw.site);
  const uint64_t first = static_cast<uint64_t>(draw.offset) >> 2;
  const uint64_t groups = ((static_cast<uint64_t>(draw.offset + n) + 3) >> 2) - first;
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t g = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; g < groups; g += stride) {
    const Philox4 words = key.words(first + g);
    for (int lane = 0; lane < 4; ++lane) {
      const int64_t i = static_cast<int64_t>((first + g) * 4 + static_cast<uint64_t>(lane)) - draw.offset;
      if (i >= 0 && i < n) f(i, words.v[lane]);
    }
  }
}

__device__ void put(float* p, int64_t i, float v) { p[i] = v; }
__device__ void put(double* p, int64_t i, float v) { p[i] = v; }
__device__ void put(__nv_bfloat16* p, int64_t i, float v) { p[i] = __float2bfloat16_rn(v); }
__device__ float times(float v, float f) { return v * f; }
__device__ double times(double v, float f) { return v * f; }
__device__ float times(__nv_bfloat16 v, float f) { return __bfloat162float(v) * f; }
__device__ void put(double* p, int64_t i, double v) { p[i] = v; }

template <class T>
__global__ void normal_kernel(T* out, int64_t n, double std, double cutoff, CudaDraw draw) {
  for_each_word(n, draw,
                [&](int64_t i, uint32_t w) { put(out, i, static_cast<float>(truncated_normal(w, std, cutoff))); });
}

__global__ void uniform_kernel(float* out, int64_t n, CudaDraw draw) {
  for_each_word(n, draw, [&](int64_t i, uint32_t w) { out[i] = uniform24(w); });
}

template <class T>
__global__ void dropout_kernel(const T* x, T* out, int64_t n, float p, CudaDraw draw) {
  for_each_word(n, draw, [&](int64_t i, uint32_t w) { put(out, i, times(x[i], dropout_factor(w, p))); });
}

unsigned blocks_for(int64_t n) {
  const int64_t blocks = (n / 4 + 256) / 256;
  return static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
}

template <class F>
cudaError_t with_type(int type, const F& f) {
  switch (type) {
    case 0:
      f(float{});
      break;
    case 1:
      f(double{});
      break;
    case 2:
      f(__nv_bfloat16{});
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t truncated_normal_cuda(void* out, int type, int64_t n, double std, double cutoff, CudaDraw draw,
                                  cudaStream_t stream) {
  return with_type(type, [&](auto tag) {
    normal_kernel<<<blocks_for(n), 256, 0, stream>>>(static_cast<decltype(tag)*>(out), n, std, cutoff, draw);
  });
}

cudaError_t uniform_cuda(float* out, int64_t n, CudaDraw draw, cudaStream_t stream) {
  uniform_kernel<<<blocks_for(n), 256, 0, stream>>>(out, n, draw);
  return cudaGetLastError();
}

cudaError_t dropout_cuda(const void* x, void* out, int type, int64_t n, float p, CudaDraw draw, cudaStream_t stream) {
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    dropout_kernel<<<blocks_for(n), 256, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(out), n, p, draw);
  });
}

}  // namespace siamese::kernels
