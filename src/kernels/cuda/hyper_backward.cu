// The backward step of hc_static, hc_dynamic and the end of the stack, a block a token; formulas:
// ops/hyper_step_cpu.cpp. A token's rows are read once: the sums over the row (u, v, G H'ᵀ) come first, the lanes turn
// them into the gradients of the maps, then the streams' gradient is formed from the same registers. Sums over tokens
// stay in the thread that owns the columns, one partial row a block; hyper_sums.cu adds those up in order.
#include "kernels/cuda/hyper_lanes.cuh"
#include "kernels/cuda/hyper_launch.cuh"
#include "kernels/cuda/hyper_tile.h"

namespace siamese::kernels {
namespace {

/// What a lane holds of a token: of its map, B_i (lane i), ρ.
struct Scalars {
  float product = 0.f, map_rho = 0.f, g_write = 0.f, write = 0.f, rho = 0.f;
};

template <int N>
__device__ __forceinline__ Scalars scalars(const HyperBackwardCuda& p, const MapLane<N>& me, int64_t token) {
  Scalars s;
  if (token >= p.tokens) return s;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const float* const saved = p.saved + token * p.saved_width;
  if (p.kind == HyperRead::dynamic && me.exists) {
    s.product = saved[lane];
    s.map_rho = saved[MapLane<N>::kLanes + me.stream];
  }
  s.rho = saved[p.saved_rho];
  if (p.g_write != nullptr && me.exists && me.part == N + 1) s.g_write = p.g_write[token * N + me.stream];
  if (p.r != nullptr && lane < N) s.write = p.write[token * N + lane];
  return s;
}

template <class S, int N, int V>
__global__ void __launch_bounds__(kHyperThreads / V) backward_kernel(const HyperBackwardCuda p) {
  extern __shared__ float4 dynamic_memory[];
  using Lane = MapLane<N>;
  using Stage = RowStage<S, 2 * N + 2, V>;  // H', G, gz, r
  constexpr int kSums = kPowerOfTwo<N * N + 2 * N>;
  const int lane = static_cast<int>(threadIdx.x) & 31, tokens = static_cast<int>(p.tokens),
            step = static_cast<int>(gridDim.x);
  const bool dynamic = p.kind == HyperRead::dynamic;
  const float inverse_width = 1.f / static_cast<float>(p.d);
  const Columns<V> columns(p.d);
  const Lane me = map_lane<S, N>(p.kind, p.maps, lane);
  const Stage stage(dynamic_memory);
  const ColumnWeights<S, N, V> weights(dynamic_memory + Stage::bytes(static_cast<int>(blockDim.x)) / sizeof(float4));
  if (dynamic) weights.fill(p.maps, p.map_gain, columns);
  BlockSums<kSums> sums;
  BlockSums<N> write_sums;
  Wide<V> column_sums[N + 3];  // D of every column of the weights, then the gain's gradient
#pragma unroll
  for (int c = 0; c < N + 3; ++c) column_sums[c] = filled<V>(0.f);
  float map_sum = 0.f, scale_sum = 0.f;  // the lane's gradients of `fixed` and `scale`
  auto ask = [&](int token) {
    const bool real = token < tokens;
    const int64_t row = static_cast<int64_t>(token) * p.d;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      stage.ask(i, p.h, row * N + i * p.d, real, columns, p.h);
      stage.ask(N + i, p.g_mixed, row * N + i * p.d, real, columns, p.h);
    }
    stage.ask(2 * N, p.g_z, row, real, columns, p.h);
    stage.ask(2 * N + 1, p.r, row, real, columns, p.h);
  };

  ask(static_cast<int>(blockIdx.x));
  Scalars next = scalars<N>(p, me, blockIdx.x);
  for (int t = static_cast<int>(blockIdx.x); t < tokens; t += step) {
    const int64_t token = t;
    Pieces<S, V> h[N], mixed[N];
    stage.wait();
#pragma unroll
    for (int i = 0; i < N; ++i) h[i] = stage.take(i), mixed[i] = stage.take(N + i);
    Wide<V> y = widen(stage.take(2 * N));
    const Pieces<S, V> r = stage.take(2 * N + 1);
    const Scalars own = next;
    ask(t + step);
    next = scalars<N>(p, me, token + step);
    const float tanh = dynamic ? tanhf(own.product) : 0.f, map = me.fixed + me.scale * tanh;

    Wide<V> read = filled<V>(0.f);
#pragma unroll
    for (int i = 0; i < N; ++i) add_scaled(read, from_lane(map, i * Lane::kParts), widen(h[i]));
    {
      // Read anew for every token: the first-level cache is cheaper than registers.
      const Wide<V> gain = load<S, V>(p.gain, columns, 1.f);
#pragma unroll
      for (int k = 0; k < V; ++k) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          column_sums[N + 2].part[k].v[i] += y.part[k].v[i] * read.part[k].v[i] * own.rho;
          y.part[k].v[i] *= gain.part[k].v[i];
        }
      }
    }
    float v[kSums] = {};
#pragma unroll
    for (int from = 0; from < N; ++from) {
      const Wide<V> x = widen(h[from]);
#pragma unroll
      for (int to = 0; to < N; ++to) v[to * N + from] = dot(widen(mixed[to]), x);
      v[N * N + from] = dot(y, x);         // u
      v[N * N + N + from] = dot(read, x);  // v
    }
    const float sum = sums(v);

    float q = 0.f;
#pragma unroll
    for (int i = 0; i < N; ++i) q += from_lane(map, i * Lane::kParts) * from_lane(sum, N * N + i);
    q = p.norm ? q * own.rho * own.rho * own.rho * inverse_width : 0.f;
    const int source = me.part == 0 ? N * N + me.stream : me.part <= N ? (me.part - 1) * N + me.stream : 0;
    const float from_sums = from_lane(sum, source & 31), my_v = from_lane(sum, (N * N + N + me.stream) & 31);
    float g_map = me.part == 0 ? own.rho * from_sums - q * my_v : me.part <= N ? from_sums : own.g_write;
    if (!me.exists) g_map = 0.f;
    map_sum += g_map;
    scale_sum += g_map * tanh;
    const float g_product = g_map * me.scale * (1.f - tanh * tanh), e = own.map_rho * g_product;

    Wide<V> g_h[N];
#pragma unroll
    for (int k = 0; k < V; ++k) {
#pragma unroll
      for (int i = 0; i < 8; ++i) y.part[k].v[i] = own.rho * y.part[k].v[i] - q * read.part[k].v[i];  // gh
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      g_h[i] = filled<V>(0.f);
      add_scaled(g_h[i], from_lane(map, i * Lane::kParts), y);
#pragma unroll
      for (int to = 0; to < N; ++to) add_scaled(g_h[i], from_lane(map, i * Lane::kParts + 1 + to), widen(mixed[to]));
    }
    if (dynamic) {
      float k = 0.f;  // lane i: of stream i
      const float part = g_product * own.product;
#pragma unroll
      for (int c = 0; c < Lane::kParts; ++c) k += from_lane(part, (lane * Lane::kParts + c) & 31);
      const float rho = from_lane(own.map_rho, (lane * Lane::kParts) & 31);
      k *= rho * rho * inverse_width;
#pragma unroll
      for (int c = 0; c < Lane::kParts; ++c) {
        const Wide<V> w = weights.column(c);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float mine = from_lane(e, i * Lane::kParts + c);
          add_scaled(g_h[i], mine, w);
          add_scaled(column_sums[c], mine, widen(h[i]));
        }
      }
#pragma unroll
      for (int i = 0; i < N; ++i) add_scaled(g_h[i], -from_lane(k, i), widen(h[i]));
    }
#pragma unroll
    for (int i = 0; i < N; ++i) store(static_cast<S*>(p.g_h) + (token * N + i) * p.d, columns, g_h[i]);
    if (p.r == nullptr) continue;
    Wide<V> g_r = filled<V>(0.f);
    float b[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      add_scaled(g_r, from_lane(own.write, i), g_h[i]);
      b[i] = dot(g_h[i], widen(r));
    }
    store(static_cast<S*>(p.g_r) + token * p.d, columns, g_r);
    const float g_b = write_sums(b);
    if (threadIdx.x < N) p.g_b[token * N + lane] = g_b;
  }

#pragma unroll
  for (int c = 0; c < N + 3; ++c)
    store(p.columns + (static_cast<int64_t>(blockIdx.x) * (N + 3) + c) * p.d, columns, column_sums[c]);
  if (threadIdx.x < 32) {
    p.lanes[blockIdx.x * 64 + lane] = map_sum;
    p.lanes[blockIdx.x * 64 + 32 + lane] = scale_sum;
  }
}

template <class S, int N>
struct Shape {
  static constexpr int kPieces = sizeof(S) == 2 && N == 2 ? 2 : 1;  // four streams leave no registers for two
  int threads;
  size_t shared;
  explicit Shape(int d)
      : threads(hyper_threads(d, kPieces)),
        shared(ColumnWeights<S, N, kPieces>::bytes(threads) + RowStage<S, 2 * N + 2, kPieces>::bytes(threads)) {}
};

}  // namespace

cudaError_t hyper_backward_parts(const HyperBackwardCuda& call, int* parts) {
  *parts = 0;
  if (cudaError_t e = cudaSuccess; hyper_backward_by_tiles(call, parts, nullptr, &e)) return e;
  return with_hyper_types(call.bf16, call.n, call.d, call.tokens, [&](auto type, auto streams) {
    using S = decltype(type);
    constexpr int N = decltype(streams)::value, V = Shape<S, N>::kPieces;
    const Shape<S, N> shape(call.d);
    return resident_blocks(backward_kernel<S, N, V>, shape.threads, shape.shared, call.tokens, parts);
  });
}

cudaError_t hyper_backward_cuda(const HyperBackwardCuda& call, int parts, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  if (cudaError_t e = cudaSuccess; hyper_backward_by_tiles(call, &parts, stream, &e)) return e;
  return with_hyper_types(call.bf16, call.n, call.d, call.tokens, [&](auto type, auto streams) {
    using S = decltype(type);
    constexpr int N = decltype(streams)::value, V = Shape<S, N>::kPieces;
    const Shape<S, N> shape(call.d);
    const unsigned blocks = static_cast<unsigned>(parts), threads = static_cast<unsigned>(shape.threads);
    backward_kernel<S, N, V><<<blocks, threads, shape.shared, stream>>>(call);
    return cudaGetLastError();
  });
}

}  // namespace siamese::kernels
