// The parameters' gradients of hc_static and hc_dynamic from the partial sums of the backward blocks, added in order:
// D [d, n+2] of every column, the gain's column, and the maps' lanes. gw = γ_map D, gγ_map = Σ_c w_c D_c.
#include "kernels/cuda/hyper.h"
#include "kernels/cuda/hyper_launch.cuh"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kSlices = 32;  // of the parts, added up side by side

template <class S>
__device__ void put(void* to, int64_t at, float v) {
  if (to != nullptr) static_cast<S*>(to)[at] = from_float<S>(v);
}

/// Sums over the slices; the result is thread.y = 0's.
__device__ float over_slices(float v) {
  __shared__ float buffer[kSlices][33];
  __syncthreads();
  buffer[threadIdx.y][threadIdx.x] = v;
  __syncthreads();
  float sum = 0.f;
  if (threadIdx.y == 0)
    for (int s = 0; s < kSlices; ++s) sum += buffer[s][threadIdx.x];
  return sum;
}

/// The maps' lanes: those of `fixed`, then those of `scale`.
template <class S, int N>
__device__ void lane_sums(const HyperBackwardCuda& p, int parts, const HyperSumsCuda& out) {
  const int lane = static_cast<int>(threadIdx.x), stream = lane / (N + 2), part = lane % (N + 2);
  float fixed = 0.f, scale = 0.f;
  for (int i = static_cast<int>(threadIdx.y); i < parts; i += kSlices)
    fixed += p.lanes[i * 64 + lane], scale += p.lanes[i * 64 + 32 + lane];
  fixed = over_slices(fixed);
  scale = over_slices(scale);
  if (threadIdx.y != 0) return;
  const bool exists = lane < N * (N + 2), write = part == N + 1;
  if (exists && part == 0) put<S>(out.g_maps[0], stream, fixed);
  if (exists && part > 0 && !write) put<S>(out.g_maps[1], stream * N + part - 1, fixed);
  if (exists && write) put<S>(out.g_maps[2], stream, fixed);
  const float alpha = warp_sum(exists && !write ? scale : 0.f), beta = warp_sum(exists && write ? scale : 0.f);
  if (lane == 0) put<S>(out.g_maps[6], 0, alpha), put<S>(out.g_maps[7], 0, beta);
}

template <class S, int N>
__global__ void __launch_bounds__(1024) sums_kernel(const HyperBackwardCuda p, int parts, const HyperSumsCuda out) {
  if (blockIdx.x == gridDim.x - 1) return lane_sums<S, N>(p, parts, out);
  const int column = 32 * static_cast<int>(blockIdx.x) + static_cast<int>(threadIdx.x);
  const bool inside = column < p.d;
  const int first = p.kind == HyperRead::dynamic ? 0 : N + 2;  // otherwise D is not wanted
  float sums[N + 3] = {};
  const int mine = inside ? parts : 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.y); i < mine; i += kSlices) {
#pragma unroll
    for (int c = 0; c < N + 3; ++c)
      if (c >= first) sums[c] += p.columns[(static_cast<int64_t>(i) * (N + 3) + c) * p.d + column];
  }
#pragma unroll
  for (int c = 0; c < N + 3; ++c)
    if (c >= first) sums[c] = over_slices(sums[c]);
  if (threadIdx.y != 0 || !inside) return;
  put<S>(out.g_gain, column, sums[N + 2]);
  if (p.kind != HyperRead::dynamic) return;
  const float gain = p.map_gain != nullptr ? to_float(static_cast<const S*>(p.map_gain)[column]) : 1.f;
  float g_gain = 0.f;
#pragma unroll
  for (int c = 0; c < N + 2; ++c) {
    const int map = c == 0 ? 3 : c <= N ? 4 : 5;
    const int64_t at = c == 0 || c == N + 1 ? column : static_cast<int64_t>(column) * N + c - 1;
    g_gain += to_float(static_cast<const S*>(p.maps[map])[at]) * sums[c];
    put<S>(out.g_maps[map], at, gain * sums[c]);
  }
  put<S>(out.g_map_gain, column, g_gain);
}

}  // namespace

cudaError_t hyper_sums_cuda(const HyperBackwardCuda& call, int parts, const HyperSumsCuda& out, cudaStream_t stream) {
  return with_hyper_types(call.bf16, call.n, call.d, call.tokens, [&](auto type, auto streams) {
    using S = decltype(type);
    constexpr int N = decltype(streams)::value;
    const unsigned blocks = static_cast<unsigned>((call.d + 31) / 32) + 1;
    sums_kernel<S, N><<<blocks, dim3(32, kSlices), 0, stream>>>(call, parts, out);
    return cudaGetLastError();
  });
}

}  // namespace siamese::kernels
