// Backward step of hc_dynamic by tiles of two tokens (formulas: ops/hyper_step_cpu.cpp). One exchange a tile: the sums
// u, v, G H'ᵀ of its tokens, and gB of the tile before, for which nobody waits. Sums over tokens stay in the thread
// that owns the columns; a block writes one partial row, hyper_sums.cu adds those up in order.
#pragma once

#include "kernels/cuda/hyper_tile.cuh"

namespace siamese::kernels::hyper {

constexpr int kBackwardThreads = 256, kBackwardTokens = 2;

struct BackwardSource {
  static constexpr int kInputs = 4, kRows = 6, kNumbers = 15;  // H', G, gz, r; saved, gB', B
  static constexpr int kSaved = 11, kMapRho = 8, kRho = 10, kGradWrite = 11, kWrite = 13;
  const HyperBackwardCuda& p;
  __device__ __forceinline__ static constexpr int count(int k) { return k < 2 ? 2 : 1; }
  __device__ __forceinline__ const void* from(int k) const {
    return k == 0 ? p.h : k == 1 ? p.g_mixed : k == 2 ? p.g_z : p.r;
  }
  __device__ __forceinline__ const float* number(int64_t token, int j) const {
    if (j < kSaved) return p.saved + token * kSaved + j;
    return j < kWrite ? p.g_write + token * 2 + j - kGradWrite : p.write + token * 2 + j - kWrite;
  }
};

/// The groups' sums over tokens in order, through the memory of the tiles; the block's part of `columns` and `lanes`.
__device__ __forceinline__ void write_sums(const HyperBackwardCuda& p, char* memory, const Layout& lie, const Place& at,
                                           Row (&sums)[Lane::kParts + 1], float map_sum, float scale_sum) {
  constexpr int kColumns = Lane::kParts + 1, kLanes = Lane::kLanes;
  const Columns<1> columns;
  float4* const tiles = reinterpret_cast<float4*>(memory + lie.ring) + at.thread;
  float* const lanes = reinterpret_cast<float*>(memory + lie.exchange);
  const auto slot = [&](int group, int c) { return tiles + (group * kColumns + c) * 2 * at.threads; };
  // The tokens of a tile lie in lanes 8 apart.
  map_sum += from_lane(map_sum, (at.lane + kLanes) % 32);
  scale_sum += from_lane(scale_sum, (at.lane + kLanes) % 32);
  __syncthreads();
  if (at.group > 0) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float(&v)[8] = sums[c].part[0].v;
      slot(at.group, c)[0] = make_float4(v[0], v[1], v[2], v[3]);
      slot(at.group, c)[at.threads] = make_float4(v[4], v[5], v[6], v[7]);
    }
  }
  if (at.thread < kLanes) {
    lanes[2 * kLanes * at.group + at.lane] = map_sum;
    lanes[2 * kLanes * at.group + kLanes + at.lane] = scale_sum;
  }
  __syncthreads();
  if (at.group > 0) return;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
#pragma unroll 1
    for (int other = 1; other < at.groups; ++other) {
      const float4 a = slot(other, c)[0], b = slot(other, c)[at.threads];
      const float v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[c].part[0].v[i] += v[i];
    }
    store(p.columns + (static_cast<int64_t>(blockIdx.x) * kColumns + c) * p.d, columns, sums[c]);
  }
  if (at.warp != 0) return;
  map_sum = scale_sum = 0.f;
  for (int other = 0; at.lane < kLanes && other < at.groups; ++other) {
    map_sum += lanes[2 * kLanes * other + at.lane];
    scale_sum += lanes[2 * kLanes * other + kLanes + at.lane];
  }
  p.lanes[blockIdx.x * 64 + at.lane] = map_sum;
  p.lanes[blockIdx.x * 64 + 32 + at.lane] = scale_sum;
}

__global__ void __launch_bounds__(kBackwardThreads, 1) backward_kernel(const HyperBackwardCuda p) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char hyper_memory[];
  using Source = BackwardSource;
  constexpr int N = 2, R = kBackwardTokens, kParts = Lane::kParts, kLanes = Lane::kLanes;
  constexpr int kU = N * N, kV = kU + N;  // where a token's sums stand: G H'ᵀ [to][from], u, v
  const Place at;
  const Layout lie(Source::kRows, Source::kNumbers, R, p.d, at.groups);
  const int lane = at.lane, d = p.d;
  const float inverse_width = 1.f / static_cast<float>(d);
  const Columns<1> columns;
  // A lane has a map of one token of the tile; the upper half of the warp repeats the lower.
  const int of = lane / kLanes % R, mine = lane % kLanes, base = of * kLanes;
  const Lane me = map_lane<bfloat, N>(p.kind, p.maps, mine);
  const ColumnWeights<bfloat, N, 1> weights(reinterpret_cast<float4*>(hyper_memory + lie.weights));
  if (at.group == 0) weights.fill(p.maps, p.map_gain, columns);
  const Row gain = load<bfloat, 1>(p.gain, columns, 1.f);
  Row column_sums[kParts + 1];  // D of every column of the weights, then the gain's gradient
#pragma unroll
  for (int c = 0; c <= kParts; ++c) column_sums[c] = filled<1>(0.f);
  float map_sum = 0.f, scale_sum = 0.f;  // the lane's gradients of `fixed` and `scale`
  Exchange sums(hyper_memory + lie.exchange, kSums * R, at);
  Tiles<R, Source> tile(hyper_memory, lie, p.tokens, d, Source{p}, at);
  float g_b[R * N] = {};  // of the tile before
  int64_t before = -1;
  const auto write_g_b = [&] {
    if (before >= 0 && at.thread < R * N) p.g_b[before * N + lane] = sums.take(R * kLanes + lane);
  };
  for (; tile.more(); tile.next()) {
    const int64_t token = tile.token();
    tile.wait();
    const float* const numbers = tile.numbers(of);
    const float product = numbers[mine], map_rho = numbers[Source::kMapRho + me.stream], my_rho = numbers[Source::kRho],
                g_write = numbers[Source::kGradWrite + me.stream];
    const float tanh = tanhf(product), map = me.fixed + me.scale * tanh;
    float rho[R], write[R][N], v[R * kLanes];
    Packed h[R][N], mixed[R][N], r[R];
    Row y[R], read[R];
#pragma unroll
    for (int t = 0; t < R; ++t) {
      rho[t] = tile.numbers(t)[Source::kRho];
      read[t] = filled<1>(0.f);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        write[t][i] = tile.numbers(t)[Source::kWrite + i];
        h[t][i] = tile.get(t * N + i);
        mixed[t][i] = tile.get((R + t) * N + i);
        add_scaled(read[t], from_lane(map, t * kLanes + i * kParts), widen(h[t][i]));
      }
      y[t] = widen(tile.get(2 * R * N + t));
      r[t] = tile.get(2 * R * N + R + t);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& each = y[t].part[0].v[i];
        column_sums[kParts].part[0].v[i] += each * read[t].part[0].v[i] * rho[t];
        each *= gain.part[0].v[i];
      }
#pragma unroll
      for (int from = 0; from < N; ++from) {
        const Row x = widen(h[t][from]);
#pragma unroll
        for (int to = 0; to < N; ++to) v[t * kLanes + to * N + from] = dot(widen(mixed[t][to]), x);
        v[t * kLanes + kU + from] = dot(y[t], x);
        v[t * kLanes + kV + from] = dot(read[t], x);
      }
    }
    sums.give(0, v);
    sums.give(R * kLanes, g_b);
    sums.sync();
    tile.refill();
    write_g_b();
    before = token;
    const float sum = sums.take(base + mine);  // lane l of a token: its sum l
    sums.turn();

    float q = 0.f;
#pragma unroll
    for (int i = 0; i < N; ++i) q += from_lane(map, base + i * kParts) * from_lane(sum, base + kU + i);
    q *= my_rho * my_rho * my_rho * inverse_width;
    const int source = me.part == 0 ? kU + me.stream : me.part <= N ? (me.part - 1) * N + me.stream : 0;
    const float from_sums = from_lane(sum, base + source), my_v = from_lane(sum, base + kV + me.stream);
    const float g_map = me.part == 0 ? my_rho * from_sums - q * my_v : me.part <= N ? from_sums : g_write;
    map_sum += g_map;
    scale_sum += g_map * tanh;
    const float g_product = g_map * me.scale * (1.f - tanh * tanh), e = map_rho * g_product;
    float k = g_product * product;  // over a stream's four lanes
    k += __shfl_xor_sync(0xffffffffU, k, 1);
    k += __shfl_xor_sync(0xffffffffU, k, 2);
    k *= map_rho * map_rho * inverse_width;
#pragma unroll
    for (int t = 0; t < R; ++t) {
      const float q_t = from_lane(q, t * kLanes);
#pragma unroll
      for (int i = 0; i < 8; ++i) y[t].part[0].v[i] = rho[t] * y[t].part[0].v[i] - q_t * read[t].part[0].v[i];  // gh
      Row g_r = filled<1>(0.f);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const int first = t * kLanes + i * kParts;
        const Row x = widen(h[t][i]);
        Row g_h = filled<1>(0.f);
        add_scaled(g_h, from_lane(map, first), y[t]);
#pragma unroll
        for (int to = 0; to < N; ++to) add_scaled(g_h, from_lane(map, first + 1 + to), widen(mixed[t][to]));
        add_scaled(g_h, -from_lane(k, first), x);
#pragma unroll
        for (int c = 0; c < kParts; ++c) {
          const float mine_e = from_lane(e, first + c);
          add_scaled(g_h, mine_e, weights.column(c));
          add_scaled(column_sums[c], mine_e, x);
        }
        store(static_cast<bfloat*>(p.g_h) + ((token + t) * N + i) * d, columns, g_h);
        add_scaled(g_r, write[t][i], g_h);
        g_b[t * N + i] = dot(g_h, widen(r[t]));
      }
      store(static_cast<bfloat*>(p.g_r) + (token + t) * d, columns, g_r);
    }
  }
  sums.give(R * kLanes, g_b);
  sums.sync();
  write_g_b();
  write_sums(p, hyper_memory, lie, at, column_sums, map_sum, scale_sum);
#endif
}

}  // namespace siamese::kernels::hyper
