#include "kernels/cuda/embedding.h"

#include "kernels/cuda/partial.cuh"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 256;  // stage one, at most
constexpr int kInFlight = 4;   // rows of g a thread loads before it adds them
constexpr int kSlices = 8;     // stage two: threads that share the columns of a long run

/// Can eight values at a time be loaded from rows of d values? Then d is a multiple of 8 and a vector is never partial.
__device__ __forceinline__ bool whole_rows(const void* p, int64_t d) {
  return d % 8 == 0 && reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

__device__ __forceinline__ void add8(Float8& sum, const Float8& f) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum.v[i] += f.v[i];
}

/// blockIdx.x: the chunk; the threads of blockIdx.y take eight columns each.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_runs_kernel(const EmbeddingGradientCuda p) {
  __shared__ int64_t place[kEmbeddingChunk];
  __shared__ int32_t id[kEmbeddingChunk + 2];  // with the neighbours on both sides; -1: there is none
  const int64_t chunk = blockIdx.x, begin = chunk * kEmbeddingChunk;
  const int count = static_cast<int>(min(static_cast<int64_t>(kEmbeddingChunk), p.tokens - begin));
  for (int i = static_cast<int>(threadIdx.x); i < count + 2; i += static_cast<int>(blockDim.x)) {
    const int64_t position = begin + i - 1;
    id[i] = position >= 0 && position < p.tokens ? p.ids[position] : -1;
    if (i < count) place[i] = p.places[begin + i];
  }
  __syncthreads();

  const int64_t column = 8 * (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x), left = p.d - column;
  if (left <= 0) return;
  const T* const g = static_cast<const T*>(p.g) + column;
  T* const g_weight = static_cast<T*>(p.g_weight) + column;
  float* const partial = p.partial + 2 * chunk * p.d + column;
  const bool whole_in = whole_rows(p.g, p.d), whole_out = whole_rows(p.g_weight, p.d),
             whole_partial = whole_rows(p.partial, p.d);
  Float8 sum = zero8();
  for (int first = 0; first < count; first += kInFlight) {
    Float8 f[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (first + u < count) f[u] = load_part(g + place[first + u] * p.d, left, whole_in);
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const int i = first + u + 1;  // in id
      if (i > count) continue;
      add8(sum, f[u]);
      if (i < count && id[i + 1] == id[i]) continue;
      // The run ends here, or the chunk does.
      if (id[i] == id[0])
        store_part(partial, sum, left, whole_partial);
      else if (id[i] == id[i + 1])
        store_part(partial + p.d, sum, left, whole_partial);
      else
        store_part(g_weight + id[i] * p.d, sum, left, whole_out);
      sum = zero8();
    }
  }
}

/// blockIdx.x: the chunk in which a run begins. The slices of a block take its parts in turn and are added in order.
template <class T>
__global__ void __launch_bounds__(32 * kSlices) join_runs_kernel(const EmbeddingGradientCuda p) {
  const int64_t chunk = blockIdx.x, chunks = gridDim.x, begin = chunk * kEmbeddingChunk, next = begin + kEmbeddingChunk;
  if (next >= p.tokens) return;  // nothing follows the last chunk
  const int32_t id = p.ids[next - 1];
  const bool goes_on = p.ids[next] == id, begins_here = begin == 0 || p.ids[begin - 1] != id;
  if (!goes_on || !begins_here) return;

  const int slice = static_cast<int>(threadIdx.y);
  const int64_t column = 8 * (static_cast<int64_t>(blockIdx.y) * 32 + threadIdx.x), left = p.d - column;
  const bool whole = whole_rows(p.partial, p.d);
  Float8 sum = zero8();
  if (left > 0) {
    if (slice == 0) sum = load_part(p.partial + (2 * chunk + 1) * p.d + column, left, whole);
    for (int64_t c = chunk + 1 + slice; c < chunks && p.ids[c * kEmbeddingChunk] == id; c += kSlices)
      add8(sum, load_part(p.partial + 2 * c * p.d + column, left, whole));
  }
  __shared__ float4 others[kSlices][2][32];
  others[slice][0][threadIdx.x] = make_float4(sum.v[0], sum.v[1], sum.v[2], sum.v[3]);
  others[slice][1][threadIdx.x] = make_float4(sum.v[4], sum.v[5], sum.v[6], sum.v[7]);
  __syncthreads();
  if (slice > 0 || left <= 0) return;
  for (int s = 1; s < kSlices; ++s) add8(sum, widen(Raw8<float>{others[s][0][threadIdx.x], others[s][1][threadIdx.x]}));
  store_part(static_cast<T*>(p.g_weight) + id * p.d + column, sum, left, whole_rows(p.g_weight, p.d));
}

template <class T>
cudaError_t launch(const EmbeddingGradientCuda& p, cudaStream_t stream) {
  const int64_t chunks = (p.tokens + kEmbeddingChunk - 1) / kEmbeddingChunk, vectors = (p.d + 7) / 8;
  const int64_t rounded = (vectors + 31) / 32 * 32, threads = rounded < kThreads ? rounded : kThreads;
  const dim3 grid(static_cast<unsigned>(chunks), static_cast<unsigned>((vectors + threads - 1) / threads));
  sum_runs_kernel<T><<<grid, static_cast<unsigned>(threads), 0, stream>>>(p);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess || chunks == 1) return error;
  const dim3 join(static_cast<unsigned>(chunks), static_cast<unsigned>((vectors + 31) / 32));
  join_runs_kernel<T><<<join, dim3(32, kSlices), 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t embedding_gradient_cuda(const EmbeddingGradientCuda& p, cudaStream_t stream) {
  if (p.tokens == 0 || p.d == 0) return cudaSuccess;
  if (p.tokens / kEmbeddingChunk >= INT32_MAX || p.d > 65535 * 8 * 32) return cudaErrorInvalidValue;
  if (p.type == 0) return launch<float>(p, stream);
  return p.type == 2 ? launch<bfloat>(p, stream) : cudaErrorInvalidValue;
}

}  // namespace siamese::kernels
