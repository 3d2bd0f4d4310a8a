// Forward step of hc_dynamic by tiles of one token: H' = A H + B ⊗ r, the maps of H', h = Σ a_i H'_i, z = N(h)
// (formulas: ops/hyper_step_cpu.cpp). Two exchanges a token: 8 products and 2 squares, then h·h.
#pragma once

#include "kernels/cuda/hyper_tile.cuh"

namespace siamese::kernels::hyper {

constexpr int kForwardThreads = 640;

struct ForwardSource {
  static constexpr int kInputs = 2, kRows = 3, kNumbers = 6;  // H, r; A, B
  const HyperForwardCuda& p;
  __device__ __forceinline__ static constexpr int count(int k) { return k == 0 ? 2 : 1; }
  __device__ __forceinline__ const void* from(int k) const { return k == 0 ? p.h : p.r; }
  __device__ __forceinline__ const float* number(int64_t token, int j) const {
    return j < 4 ? p.residual + token * 4 + j : p.write + token * 2 + j - 4;
  }
};

__global__ void __launch_bounds__(kForwardThreads, 1) forward_kernel(const HyperForwardCuda p) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char hyper_memory[];
  using Source = ForwardSource;
  constexpr int N = 2, kParts = Lane::kParts, kLanes = Lane::kLanes;
  const Place at;
  const Layout lie(Source::kRows, Source::kNumbers, 1, p.d, at.groups);
  const float inverse_width = 1.f / static_cast<float>(p.d);
  const Columns<1> columns;
  const int mine = at.lane % kLanes;  // the lanes repeat the maps four times
  const Lane me = map_lane<bfloat, N>(p.kind, p.maps, mine);
  const ColumnWeights<bfloat, N, 1> weights(reinterpret_cast<float4*>(hyper_memory + lie.weights));
  if (at.group == 0) weights.fill(p.maps, p.map_gain, columns);
  const Row gain = load<bfloat, 1>(p.gain, columns, 1.f);
  Exchange sums(hyper_memory + lie.exchange, kSums, at);
  Tiles<1, Source> tile(hyper_memory, lie, p.tokens, p.d, Source{p}, at);
  for (; tile.more(); tile.next()) {
    const int64_t token = tile.token();
    tile.wait();
    Packed h[N];
    float squares[N], products[kLanes];
    {
      const float* const before = tile.numbers(0);  // A, B
      const Row in[N + 1] = {widen(tile.get(0)), widen(tile.get(1)), widen(tile.get(2))};
#pragma unroll
      for (int to = 0; to < N; ++to) {
        Row mixed = filled<1>(0.f);
        add_scaled(mixed, before[to * N], in[0]);
        add_scaled(mixed, before[to * N + 1], in[1]);
        add_scaled(mixed, before[N * N + to], in[N]);
        h[to] = narrow(mixed, bfloat{});
        put(static_cast<bfloat*>(p.h_out) + (token * N + to) * p.d, columns, h[to]);
        mixed = widen(h[to]);  // as the backward pass will read it
        squares[to] = dot(mixed, mixed);
      }
    }
#pragma unroll
    for (int c = 0; c < kParts; ++c) {
      const Row w = weights.column(c);
#pragma unroll
      for (int i = 0; i < N; ++i) products[i * kParts + c] = dot(widen(h[i]), w);
    }
    sums.give(0, products);
    sums.give(kLanes, squares);
    sums.sync();
    tile.refill();
    const float map_rho = rsqrtf(sums.take(kLanes + me.stream) * inverse_width + p.map_eps);
    const float product = map_rho * sums.take(mine), map = me.fixed + me.scale * tanhf(product);
    sums.turn();
    if (at.thread < kLanes) {
      float* const saved = p.saved + token * p.saved_width;
      saved[mine] = product;
      if (me.part == 0) saved[kLanes + me.stream] = map_rho;
      if (me.part >= 1 && me.part <= N) p.residual_out[(token * N + me.part - 1) * N + me.stream] = map;
      if (me.part == N + 1) p.write_out[token * N + me.stream] = map;
    }

    Row read = filled<1>(0.f);
#pragma unroll
    for (int i = 0; i < N; ++i) add_scaled(read, from_lane(map, i * kParts), widen(h[i]));
    float square[1] = {dot(read, read)};
    sums.give(0, square);
    sums.sync();
    const float rho = rsqrtf(sums.take(0) * inverse_width + p.eps);
    sums.turn();
#pragma unroll
    for (int i = 0; i < 8; ++i) read.part[0].v[i] *= rho * gain.part[0].v[i];
    store(static_cast<bfloat*>(p.z) + token * p.d, columns, read);
    if (at.thread == 0) p.saved[token * p.saved_width + p.saved_rho] = rho;
  }
#endif
}

}  // namespace siamese::kernels::hyper
