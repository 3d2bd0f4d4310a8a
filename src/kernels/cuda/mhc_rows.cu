// The parts of mhc's backward step that give a block a token: the sums over its row, which the maps' gradients start
// from, and, where no tensor-core kernel serves, the gradients of the streams and of r.
#include "kernels/cuda/hyper_launch.cuh"
#include "kernels/cuda/hyper_row.cuh"
#include "kernels/cuda/mhc.h"
#include "kernels/mhc_maps.h"

namespace siamese::kernels {
namespace {

template <class S, int N, int V>
__global__ void __launch_bounds__(kHyperThreads / V) dots_kernel(const MhcBackwardCuda p) {
  extern __shared__ float4 dynamic_memory[];
  using Stage = RowStage<S, 2 * N + 1, V>;  // H', G, gz
  constexpr int kDots = N * N + 2 * N, kSaved = kMhcColumns<N> + 4;
  const int lane = static_cast<int>(threadIdx.x) & 31, d = p.sizes.d, tokens = static_cast<int>(p.sizes.tokens),
            step = static_cast<int>(gridDim.x);
  const Columns<V> columns(d);
  const float s = to_float(*static_cast<const S*>(p.parameters.s[0]));
  const float b = lane < N ? to_float(static_cast<const S*>(p.parameters.b[0])[lane]) : 0.f;
  const Stage stage(dynamic_memory);
  auto ask = [&](int token) {
    const bool real = token < tokens;
    const int64_t row = static_cast<int64_t>(token) * d;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      stage.ask(i, p.h, row * N + i * d, real, columns, p.h);
      stage.ask(N + i, p.g_mixed, row * N + i * d, real, columns, p.h);
    }
    stage.ask(2 * N, p.g_z, row, real, columns, p.h);
  };
  // Lane i < N: product i of the token; lane N: ρ.
  auto scalar = [&](int token) {
    if (token >= tokens || lane > N) return 0.f;
    return p.saved[static_cast<int64_t>(token) * kSaved + (lane < N ? lane : kSaved - 3)];
  };
  BlockSums<kPowerOfTwo<kDots>> sums;
  Wide<V> gain_sum = filled<V>(0.f);

  ask(static_cast<int>(blockIdx.x));
  float next = scalar(static_cast<int>(blockIdx.x));
  for (int token = static_cast<int>(blockIdx.x); token < tokens; token += step) {
    Pieces<S, V> h[N], mixed[N];
    stage.wait();
#pragma unroll
    for (int i = 0; i < N; ++i) h[i] = stage.take(i), mixed[i] = stage.take(N + i);
    Wide<V> y = widen(stage.take(2 * N)), read = filled<V>(0.f);
    const float a = sigmoid(s * next + b), rho = from_lane(next, N);
    ask(token + step);
    next = scalar(token + step);
#pragma unroll
    for (int i = 0; i < N; ++i) add_scaled(read, from_lane(a, i), widen(h[i]));
    const Wide<V> gain = load<S, V>(p.gain, columns, 1.f);
#pragma unroll
    for (int k = 0; k < V; ++k) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        gain_sum.part[k].v[i] += y.part[k].v[i] * read.part[k].v[i] * rho;
        y.part[k].v[i] *= gain.part[k].v[i];
      }
    }
    float v[kPowerOfTwo<kDots>] = {};
#pragma unroll
    for (int from = 0; from < N; ++from) {
      const Wide<V> x = widen(h[from]);
#pragma unroll
      for (int to = 0; to < N; ++to) v[to * N + from] = dot(widen(mixed[to]), x);
      v[N * N + from] = dot(y, x);         // u
      v[N * N + N + from] = dot(read, x);  // v
    }
    const float sum = sums(v);
    if (threadIdx.x < kDots) p.dots[static_cast<int64_t>(token) * kDots + lane] = sum;
  }
  store(p.gain_sums + static_cast<int64_t>(blockIdx.x) * d, columns, gain_sum);
}

/// gH' = A'ᵀ G + a ⊗ gh + e wᵀ - k H', with e wᵀ given; gB and gr from it.
template <class S, int N>
__global__ void __launch_bounds__(kHyperThreads) mixed_backward_kernel(const MhcBackwardCuda p) {
  constexpr int kRecord = N * N + 2 * N + 4;
  const int lane = static_cast<int>(threadIdx.x) & 31, d = p.sizes.d;
  const Columns<1> columns(d);
  const Wide<1> gain = load<S, 1>(p.gain, columns, 1.f);
  BlockSums<N> write_sums;
  for (int64_t token = blockIdx.x; token < p.sizes.tokens; token += gridDim.x) {
    const auto row = [&](const void* from, int64_t first) {
      return load<S, 1>(from != nullptr ? static_cast<const S*>(from) + first : nullptr, columns, 0.f);
    };
    const float record = lane < kRecord ? p.records[token * kRecord + lane] : 0.f;
    const float rho = from_lane(record, N * N + 2 * N), q = from_lane(record, N * N + 2 * N + 1),
                k = from_lane(record, N * N + 2 * N + 2);
    Wide<1> read = filled<1>(0.f), g_read = row(p.g_z, token * d), g_r = filled<1>(0.f);
#pragma unroll
    for (int i = 0; i < N; ++i) add_scaled(read, from_lane(record, N * N + i), row(p.h, (token * N + i) * d));
#pragma unroll
    for (int i = 0; i < 8; ++i)
      g_read.part[0].v[i] = rho * gain.part[0].v[i] * g_read.part[0].v[i] - q * read.part[0].v[i];
    const Wide<1> r = row(p.r, token * d);
    float b[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      Wide<1> g = row(p.term, (token * N + i) * d);
      add_scaled(g, from_lane(record, N * N + i), g_read);
      add_scaled(g, -k, row(p.h, (token * N + i) * d));
#pragma unroll
      for (int to = 0; to < N; ++to) add_scaled(g, from_lane(record, to * N + i), row(p.g_mixed, (token * N + to) * d));
      store(static_cast<S*>(p.g_h) + (token * N + i) * d, columns, g);
      add_scaled(g_r, from_lane(record, N * N + N + i), g);
      b[i] = dot(g, r);
    }
    if (p.r == nullptr) continue;
    store(static_cast<S*>(p.g_r) + token * d, columns, g_r);
    const float g_b = write_sums(b);
    if (threadIdx.x < N) p.g_b[token * N + lane] = g_b;
  }
}

template <class S>
constexpr int kPieces = sizeof(S) == 2 ? 2 : 1;

}  // namespace

cudaError_t mhc_dots_parts(const MhcSizes& z, int* parts) {
  return with_hyper_types(z.bf16, z.n, z.d, z.tokens, [&](auto type, auto n) {
    using S = decltype(type);
    constexpr int N = decltype(n)::value;
    const int threads = hyper_threads(z.d, kPieces<S>);
    return resident_blocks(dots_kernel<S, N, kPieces<S>>, threads, RowStage<S, 2 * N + 1, kPieces<S>>::bytes(threads),
                           z.tokens, parts);
  });
}

cudaError_t mhc_dots_cuda(const MhcBackwardCuda& call, const MhcParts& parts, cudaStream_t stream) {
  const MhcSizes& z = call.sizes;
  if (z.tokens == 0) return cudaSuccess;
  return with_hyper_types(z.bf16, z.n, z.d, z.tokens, [&](auto type, auto n) {
    using S = decltype(type);
    constexpr int N = decltype(n)::value;
    const int threads = hyper_threads(z.d, kPieces<S>);
    dots_kernel<S, N, kPieces<S>><<<static_cast<unsigned>(parts.gain), static_cast<unsigned>(threads),
                                    RowStage<S, 2 * N + 1, kPieces<S>>::bytes(threads), stream>>>(call);
    return cudaGetLastError();
  });
}

cudaError_t mhc_mixed_backward_cuda(const MhcBackwardCuda& call, cudaStream_t stream) {
  const MhcSizes& z = call.sizes;
  if (z.tokens == 0) return cudaSuccess;
  return with_hyper_types(z.bf16, z.n, z.d, z.tokens, [&](auto type, auto n) {
    using S = decltype(type);
    constexpr int N = decltype(n)::value;
    const int threads = hyper_threads(z.d, 1);
    int blocks = 0;
    if (const cudaError_t e = resident_blocks(mixed_backward_kernel<S, N>, threads, 0, z.tokens, &blocks);
        e != cudaSuccess)
      return e;
    mixed_backward_kernel<S, N><<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(call);
    return cudaGetLastError();
  });
}

}  // namespace siamese::kernels
