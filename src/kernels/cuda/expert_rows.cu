// Rows of a mixture: to their experts, through the activation with the router's weight, and back to their tokens.
#include "kernels/cuda/experts.h"
#include "kernels/cuda/swiglu.cuh"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t vectors) { return static_cast<unsigned>((vectors + kThreads - 1) / kThreads); }

/// The first `tokens` warps read a token's row once and write it wherever it goes: by tokens, not by experts, because x
/// does not fit into the second-level cache. The others each look for rows that are nobody's among 32.
__global__ void __launch_bounds__(kThreads) spread_kernel(const bfloat* x, const int32_t* place, const int32_t* token,
                                                          bfloat* out, int64_t tokens, int k, int64_t rows, int d8) {
  constexpr int kAhead = 4;
  const int64_t warp = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint4* const to = reinterpret_cast<uint4*>(out);
  if (warp >= tokens) {
    const int64_t first = 32 * (warp - tokens);
    unsigned none = __ballot_sync(0xffffffffU, first + lane < rows && token[first + lane] < 0);
    for (; none != 0; none &= none - 1)
      for (int c = lane; c < d8; c += 32)
        to[(first + __ffs(static_cast<int>(none)) - 1) * d8 + c] = make_uint4(0, 0, 0, 0);
    return;
  }
  const uint4* const from = reinterpret_cast<const uint4*>(x) + warp * d8;
  for (int first = lane; first < d8; first += 32 * kAhead) {
    uint4 v[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + 32 * i < d8) v[i] = from[first + 32 * i];
    for (int j = 0; j < k; ++j) {
      const int row = place[warp * k + j];
      if (row < 0) continue;
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        if (first + 32 * i < d8) to[static_cast<int64_t>(row) * d8 + first + 32 * i] = v[i];
    }
  }
}

/// A thread has eight columns of a token.
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const bfloat* rows, const int32_t* place, bfloat* out, int64_t vectors, int k, int d8) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= vectors) return;
  const int64_t token = at / d8, column = at % d8 * 8;
  Float8 sum = zero8();
  for (int j = 0; j < k; ++j) {
    const int row = place[token * k + j];
    if (row < 0) continue;
    const Float8 f = load8(rows + static_cast<int64_t>(row) * d8 * 8 + column);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum.v[i] += f.v[i];
  }
  store8(out + at * 8, sum);
}

__global__ void __launch_bounds__(kThreads) forward_kernel(const bfloat* p, const float* weights, const int32_t* slot,
                                                           bfloat* out, int64_t vectors, int width8) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= vectors) return;
  const int64_t row = at / width8, from = 8 * (at + row * width8);
  const int of = slot[row];
  if (of < 0) {  // p is not even written there
    store8(out + 8 * at, zero8());
    return;
  }
  const float weight = weights[of];
  Float8 a = load8(p + from);
  const Float8 b = load8(p + from + 8 * static_cast<int64_t>(width8));
#pragma unroll
  for (int i = 0; i < 8; ++i) a.v[i] = weight * swiglu<true>(a.v[i], b.v[i]);
  store8(out + 8 * at, a);
}

/// A block has a row, a thread at least one vector of it: the gradient of its weight is a sum over the row, always in
/// the same order.
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const bfloat* p, const bfloat* u, const float* weights, const int32_t* slot, bfloat* gp,
                    bfloat* out, float* g_weights, int width8) {
  const int64_t row = blockIdx.x;
  const int threads = static_cast<int>(blockDim.x);
  const int of = slot[row];
  if (of < 0) {
    for (int v = static_cast<int>(threadIdx.x); v < width8; v += threads) {
      const int64_t at = row * width8 + v, from = 8 * (at + row * width8);
      for (bfloat* to : {gp + from, gp + from + 8 * static_cast<int64_t>(width8), out + 8 * at}) store8(to, zero8());
    }
    return;
  }
  const float weight = weights[of];
  float dot = 0.f;
  for (int v = static_cast<int>(threadIdx.x); v < width8; v += threads) {
    const int64_t at = row * width8 + v, from = 8 * (at + row * width8),
                  second = from + 8 * static_cast<int64_t>(width8);
    Float8 a = load8(p + from), b = load8(p + second), h;
    const Float8 g = load8(u + 8 * at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      h.v[i] = swiglu_backward<true>(a.v[i], b.v[i], weight * g.v[i]);
      dot += g.v[i] * h.v[i];
      h.v[i] *= weight;
    }
    store8(gp + from, a);
    store8(gp + second, b);
    store8(out + 8 * at, h);
  }
  __shared__ float parts[kThreads / 32];
#pragma unroll
  for (int i = 16; i > 0; i /= 2) dot += __shfl_xor_sync(0xffffffffU, dot, i);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = dot;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0.f;
  for (int w = 0; w < threads / 32; ++w) sum += parts[w];
  g_weights[of] = sum;
}

}  // namespace

cudaError_t spread_rows_cuda(const void* x, const int32_t* place, const int32_t* token, void* out, int64_t tokens,
                             int k, int64_t rows, int64_t d, cudaStream_t stream) {
  if (d % 8 != 0) return cudaErrorInvalidValue;
  if (rows == 0 || d == 0) return cudaSuccess;
  const int64_t warps = tokens + (rows + 31) / 32;
  spread_kernel<<<blocks_for(32 * warps), kThreads, 0, stream>>>(
      static_cast<const bfloat*>(x), place, token, static_cast<bfloat*>(out), tokens, k, rows, static_cast<int>(d / 8));
  return cudaGetLastError();
}

cudaError_t gather_sum_cuda(const void* rows, const int32_t* place, void* out, int64_t tokens, int k, int64_t d,
                            cudaStream_t stream) {
  if (d % 8 != 0) return cudaErrorInvalidValue;
  const int64_t vectors = tokens * d / 8;
  if (vectors == 0) return cudaSuccess;
  sum_kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(
      static_cast<const bfloat*>(rows), place, static_cast<bfloat*>(out), vectors, k, static_cast<int>(d / 8));
  return cudaGetLastError();
}

cudaError_t weighted_swiglu_cuda(const void* p, const float* weights, const int32_t* slot, void* out, int64_t rows,
                                 int64_t width, cudaStream_t stream) {
  if (width % 8 != 0) return cudaErrorInvalidValue;
  const int64_t vectors = rows * width / 8;
  if (vectors == 0) return cudaSuccess;
  forward_kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(
      static_cast<const bfloat*>(p), weights, slot, static_cast<bfloat*>(out), vectors, static_cast<int>(width / 8));
  return cudaGetLastError();
}

cudaError_t weighted_swiglu_backward_cuda(const void* p, const void* u, const float* weights, const int32_t* slot,
                                          void* gp, void* out, float* g_weights, int64_t rows, int64_t width,
                                          cudaStream_t stream) {
  if (width % 8 != 0) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  const int64_t vectors = (width / 8 + 31) / 32 * 32;
  const unsigned threads = static_cast<unsigned>(vectors < kThreads ? vectors : kThreads);
  backward_kernel<<<static_cast<unsigned>(rows), threads, 0, stream>>>(
      static_cast<const bfloat*>(p), static_cast<const bfloat*>(u), weights, slot, static_cast<bfloat*>(gp),
      static_cast<bfloat*>(out), g_weights, static_cast<int>(width / 8));
  return cudaGetLastError();
}

}  // namespace siamese::kernels
