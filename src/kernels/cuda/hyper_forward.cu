// The forward step of the hyper-connections, a block a token: H' = A H + B ⊗ r, the maps of H', h = Σ a_i H'_i, z =
// N(h), all from registers. Blocks walk over the tokens; the next token's rows are on their way while this one's are
// summed.
#include "kernels/cuda/hyper_lanes.cuh"
#include "kernels/cuda/hyper_launch.cuh"
#include "kernels/cuda/hyper_tile.h"

namespace siamese::kernels {
namespace {

template <class S, int N, int V>
__global__ void __launch_bounds__(kHyperThreads / V) forward_kernel(const HyperForwardCuda p) {
  extern __shared__ float4 dynamic_memory[];
  using Lane = MapLane<N>;
  using Stage = RowStage<S, N + 1, V>;  // H, r
  constexpr int kSums = kPowerOfTwo<N + Lane::kLanes>;
  const int lane = static_cast<int>(threadIdx.x) & 31, tokens = static_cast<int>(p.tokens),
            step = static_cast<int>(gridDim.x);
  const bool first_warp = threadIdx.x < 32, dynamic = p.kind == HyperRead::dynamic, given = p.kind == HyperRead::given;
  const float inverse_width = 1.f / static_cast<float>(p.d);
  const Columns<V> columns(p.d);
  const Lane me = map_lane<S, N>(p.kind, p.maps, lane);
  const Stage stage(dynamic_memory);
  const ColumnWeights<S, N, V> weights(dynamic_memory + Stage::bytes(static_cast<int>(blockDim.x)) / sizeof(float4));
  if (dynamic) weights.fill(p.maps, p.map_gain, columns);
  BlockSums<kSums> sums;
  BlockSums<1> square;
  auto ask = [&](int token) {
    const bool real = token < tokens;
#pragma unroll
    for (int i = 0; i < N; ++i) stage.ask(i, p.h, token * p.token_stride + i * p.stream_stride, real, columns, p.h);
    stage.ask(N, p.r, static_cast<int64_t>(token) * p.d, real, columns, p.h);
  };
  // Lane j: element j of A, then of B; `given`: of a.
  auto map_of = [&](int64_t token) {
    if (token >= tokens) return 0.f;
    if (given) return lane < N ? p.read[token * N + lane] : 0.f;
    if (lane < N * N) return p.residual != nullptr ? p.residual[token * N * N + lane] : lane % (N + 1) == 0 ? 1.f : 0.f;
    return lane < N * N + N && p.r != nullptr ? p.write[token * N + lane - N * N] : 0.f;
  };

  ask(static_cast<int>(blockIdx.x));
  float next = map_of(blockIdx.x);
  for (int t = static_cast<int>(blockIdx.x); t < tokens; t += step) {
    const int64_t token = t;
    Pieces<S, V> h[N];
    stage.wait();
#pragma unroll
    for (int i = 0; i < N; ++i) h[i] = stage.take(i);
    const Pieces<S, V> r = stage.take(N);
    const float before = next;
    ask(t + step);
    next = map_of(token + step);
    if (!given) {  // H' in the streams' type, as the backward pass will read it
      Wide<V> mixed[N];
#pragma unroll
      for (int to = 0; to < N; ++to) mixed[to] = filled<V>(0.f);
#pragma unroll
      for (int from = 0; from <= N; ++from) {
        const Wide<V> x = from < N ? widen(h[from < N ? from : 0]) : widen(r);
#pragma unroll
        for (int to = 0; to < N; ++to)
          add_scaled(mixed[to], from_lane(before, from < N ? to * N + from : N * N + to), x);
      }
#pragma unroll
      for (int to = 0; to < N; ++to) {
        h[to] = narrow(mixed[to], S{});
        put(static_cast<S*>(p.h_out) + (token * N + to) * p.d, columns, h[to]);
      }
    }

    float map = given ? from_lane(before, me.stream & 31) : me.fixed;
    if (dynamic || p.squares != nullptr) {
      float v[kSums] = {};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Wide<V> x = widen(h[i]);
        v[i] = dot(x, x);
      }
      if (dynamic) {
#pragma unroll
        for (int c = 0; c < Lane::kParts; ++c) {
          const Wide<V> w = weights.column(c);
#pragma unroll
          for (int i = 0; i < N; ++i) v[N + i * Lane::kParts + c] = dot(widen(h[i]), w);
        }
      }
      const float sum = sums(v);
      if (p.squares != nullptr) {
        float all = 0.f;
#pragma unroll
        for (int i = 0; i < N; ++i) all += from_lane(sum, i);
        if (threadIdx.x == 0) p.squares[token] = all;
      }
      const float rho = rsqrtf(from_lane(sum, me.stream & 31) * inverse_width + p.map_eps);
      const float product = rho * from_lane(sum, (N + lane) & 31);
      if (dynamic) {
        map += me.scale * tanhf(product);
        if (first_warp && me.exists) {
          float* const saved = p.saved + token * p.saved_width;
          saved[lane] = product;
          if (me.part == 0) saved[Lane::kLanes + me.stream] = rho;
        }
      }
    }
    if (first_warp && me.exists && p.residual_out != nullptr) {
      if (me.part >= 1 && me.part <= N) p.residual_out[(token * N + me.part - 1) * N + me.stream] = map;
      if (me.part == N + 1) p.write_out[token * N + me.stream] = map;
    }
    if (p.z == nullptr) continue;

    Wide<V> read = filled<V>(0.f);
#pragma unroll
    for (int i = 0; i < N; ++i) add_scaled(read, from_lane(map, i * Lane::kParts), widen(h[i]));
    float rho = 1.f;
    if (p.norm) {
      float v[1] = {dot(read, read)};
      rho = rsqrtf(from_lane(square(v), 0) * inverse_width + p.eps);
    }
    const Wide<V> gain = load<S, V>(p.gain, columns, 1.f);
#pragma unroll
    for (int k = 0; k < V; ++k) {
#pragma unroll
      for (int i = 0; i < 8; ++i) read.part[k].v[i] *= rho * gain.part[k].v[i];
    }
    store(static_cast<S*>(p.z) + token * p.d, columns, read);
    if (threadIdx.x == 0) p.saved[token * p.saved_width + p.saved_rho] = rho;
  }
}

}  // namespace

cudaError_t hyper_forward_cuda(const HyperForwardCuda& call, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  if (cudaError_t e = cudaSuccess; hyper_forward_by_tiles(call, stream, &e)) return e;
  return with_hyper_types(call.bf16, call.n, call.d, call.tokens, [&](auto type, auto streams) {
    using S = decltype(type);
    constexpr int N = decltype(streams)::value, V = sizeof(S) == 2 ? 2 : 1;
    const int threads = hyper_threads(call.d, V);
    const size_t shared = ColumnWeights<S, N, V>::bytes(threads) + RowStage<S, N + 1, V>::bytes(threads);
    int blocks = 0;
    if (const cudaError_t e = resident_blocks(forward_kernel<S, N, V>, threads, shared, call.tokens, &blocks);
        e != cudaSuccess)
      return e;
    forward_kernel<S, N, V><<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared, stream>>>(call);
    return cudaGetLastError();
  });
}

}  // namespace siamese::kernels
