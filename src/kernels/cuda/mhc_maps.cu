// mhc's maps, a thread a token: σ and Sinkhorn forward, and back from the sums over the row (kernels/mhc_maps.h).
#include "kernels/mhc_maps.h"

#include "kernels/cuda/hyper_launch.cuh"
#include "kernels/cuda/mhc.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 64;  // the divisions' sums of so many tokens fit the shared memory that needs no permission

template <class S, int N>
__device__ MhcMapParameters<N> load(const MhcParametersCuda& p) {
  MhcMapParameters<N> m;
#pragma unroll
  for (int c = 0; c < kMhcColumns<N>; ++c) {
    const int map = c < N ? 0 : c < 2 * N ? 1 : 2;
    m.b[c] = to_float(static_cast<const S*>(p.b[map])[c - map * N]);
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) m.s[i] = to_float(*static_cast<const S*>(p.s[i]));
  return m;
}

/// K floats, a multiple of 4, from or to a 16-byte aligned address.
template <int K>
__device__ void get(const float* from, float (&to)[K]) {
#pragma unroll
  for (int i = 0; i < K; i += 4) {
    const float4 v = *reinterpret_cast<const float4*>(from + i);
    to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
  }
}
template <int K>
__device__ void put(float* to, const float (&from)[K]) {
#pragma unroll
  for (int i = 0; i < K; i += 4)
    *reinterpret_cast<float4*>(to + i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
}

template <class S, int N>
__global__ void __launch_bounds__(kThreads) maps_kernel(const MhcMapsCuda p) {
  constexpr int kColumns = kMhcColumns<N>;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (token >= p.sizes.tokens) return;
  float products[kColumns], read[N], write[N], residual[N * N];
  float* const saved = p.saved + token * (kColumns + 4);
  if (p.product == nullptr) {
    get(saved, products);
  } else {
    const float width = static_cast<float>(N * p.sizes.d), rho = rsqrtf(p.squares[token] / width + p.map_eps);
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      products[c] = rho * to_float(static_cast<const S*>(p.product)[token * kColumns + c]);
    put(saved, products);
    const float rest[4] = {rho, 0.f, 0.f, 0.f};  // ρ of N comes with the read
    put(saved + kColumns, rest);
  }
  mhc_maps<N>(products, load<S, N>(p.parameters), read, write, residual);
  put(p.residual + token * N * N, residual);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    p.write[token * N + i] = write[i];
    if (p.read != nullptr) p.read[token * N + i] = read[i];
  }
}

template <class S, int N>
__global__ void __launch_bounds__(kThreads) maps_backward_kernel(const MhcBackwardCuda p) {
  constexpr int kColumns = kMhcColumns<N>;
  __shared__ float divisions[kSinkhornDivisions][N][kThreads];
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const bool real = token < p.sizes.tokens;
  const MhcMapParameters<N> parameters = load<S, N>(p.parameters);
  MhcTokenGradient<N> t{};
  float products[kColumns] = {};
  if (real) {
    float saved[kColumns + 4], dots[N * N + 2 * N];
    get(p.saved + token * (kColumns + 4), saved);
    get(p.dots + token * (N * N + 2 * N), dots);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) products[c] = saved[c];
    t.map_rho = saved[kColumns], t.rho = saved[kColumns + 1];
#pragma unroll
    for (int i = 0; i < N * N; ++i) t.mixed[i] = dots[i];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      t.u[i] = dots[N * N + i], t.v[i] = dots[N * N + N + i];
      t.g_write[i] = p.g_write != nullptr ? p.g_write[token * N + i] : 0.f;
    }
  }
  auto keep = [&](int division, const float(&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) divisions[division][i][threadIdx.x] = sums[i];
  };
  auto recall = [&](int division, float(&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = divisions[division][i][threadIdx.x];
  };
  mhc_token_backward<N>(products, parameters, p.norm, static_cast<float>(p.sizes.d), t, keep, recall);
  if (real) {
    float record[N * N + 2 * N + 4];
#pragma unroll
    for (int i = 0; i < N * N; ++i) record[i] = t.residual[i];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      record[N * N + i] = t.read[i];
      record[N * N + N + i] = p.r != nullptr ? p.write[token * N + i] : 0.f;
    }
    record[N * N + 2 * N] = t.rho, record[N * N + 2 * N + 1] = t.q, record[N * N + 2 * N + 2] = t.k;
    record[N * N + 2 * N + 3] = 0.f;
    put(p.records + token * (N * N + 2 * N + 4), record);
#pragma unroll
    for (int c = 0; c < kColumns; c += 8) {
      Float8 eight;
#pragma unroll
      for (int i = 0; i < 8; ++i) eight.v[i] = t.e[c + i];
      store8(static_cast<S*>(p.e) + token * kColumns + c, eight);
    }
  }

  // The block's sums for b, then s.
  __shared__ float sums[kThreads / 32][kColumns + 3];
  float of_s[3] = {};
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const float mine = real ? t.g_logits[c] : 0.f, sum = warp_sum(mine);
    of_s[c < N ? 0 : c < 2 * N ? 1 : 2] += mine * products[c];
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][c] = sum;
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const float sum = warp_sum(of_s[i]);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][kColumns + i] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kColumns + 3)
    p.map_sums[static_cast<int64_t>(blockIdx.x) * (kColumns + 3) + threadIdx.x] =
        sums[0][threadIdx.x] + sums[1][threadIdx.x];
}

unsigned blocks(int64_t tokens) { return static_cast<unsigned>((tokens + kThreads - 1) / kThreads); }

}  // namespace

int mhc_map_parts(const MhcSizes& sizes) { return static_cast<int>(blocks(sizes.tokens)); }

cudaError_t mhc_maps_cuda(const MhcMapsCuda& call, cudaStream_t stream) {
  if (call.sizes.tokens == 0) return cudaSuccess;
  return with_hyper_types(call.sizes.bf16, call.sizes.n, call.sizes.d, call.sizes.tokens, [&](auto type, auto n) {
    maps_kernel<decltype(type), decltype(n)::value><<<blocks(call.sizes.tokens), kThreads, 0, stream>>>(call);
    return cudaGetLastError();
  });
}

cudaError_t mhc_maps_backward_cuda(const MhcBackwardCuda& call, cudaStream_t stream) {
  if (call.sizes.tokens == 0) return cudaSuccess;
  return with_hyper_types(call.sizes.bf16, call.sizes.n, call.sizes.d, call.sizes.tokens, [&](auto type, auto n) {
    maps_backward_kernel<decltype(type), decltype(n)::value><<<blocks(call.sizes.tokens), kThreads, 0, stream>>>(call);
    return cudaGetLastError();
  });
}

}  // namespace siamese::kernels
