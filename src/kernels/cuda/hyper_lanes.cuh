// The maps of hc_static and hc_dynamic in the kernels: each lane of a warp stands for one map, each thread has the
// weights of its columns in shared memory.
#pragma once

#include "kernels/cuda/hyper.h"
#include "kernels/cuda/hyper_row.cuh"

namespace siamese::kernels {

/// What lane l < n(n+2) stands for: stream l / (n+2), and of it part 0 the read map, 1 … n the residual map to stream
/// part-1, n+1 the write map. Its value is fixed + scale·tanh(product).
template <int N>
struct MapLane {
  static constexpr int kParts = N + 2, kLanes = N * kParts;
  int stream, part;
  bool exists;
  float fixed = 0.f, scale = 0.f;
};

/// `maps`: alpha_m, alpha_r, beta, w_m, w_r, w_b, s_alpha, s_beta; not read for `sum`, which reads every stream and
/// mixes none.
template <class S, int N>
__device__ MapLane<N> map_lane(HyperRead kind, const void* const* maps, int lane) {
  using Lane = MapLane<N>;
  Lane l{lane / Lane::kParts, lane % Lane::kParts, lane < Lane::kLanes};
  const auto at = [&](int m, int i) { return to_float(static_cast<const S*>(maps[m])[i]); };
  if (kind == HyperRead::sum) l.fixed = l.part == 0 || l.part - 1 == l.stream ? 1.f : 0.f;
  if (!l.exists || (kind != HyperRead::fixed && kind != HyperRead::dynamic)) return l;
  l.fixed = l.part == 0 ? at(0, l.stream) : l.part <= N ? at(1, l.stream * N + l.part - 1) : at(2, l.stream);
  if (kind == HyperRead::dynamic) l.scale = l.part <= N ? at(6, 0) : at(7, 0);
  return l;
}

/// The weights of the thread's columns times the norm's gain: column c of the n+2, threads side by side.
template <class S, int N, int V>
class ColumnWeights {
 public:
  __host__ __device__ static constexpr size_t bytes(int threads) {
    return static_cast<size_t>(N + 2) * V * 8 * sizeof(float) * static_cast<size_t>(threads);
  }
  __device__ explicit ColumnWeights(float4* memory) : memory_(memory + threadIdx.x) {}

  __device__ void fill(const void* const* maps, const void* map_gain, const Columns<V>& columns) const {
    const Wide<V> gain = load<S, V>(map_gain, columns, 1.f);
#pragma unroll
    for (int c = 0; c < N + 2; ++c) {
      const S* const from = static_cast<const S*>(c == 0 ? maps[3] : c <= N ? maps[4] : maps[5]);
      const int stride = c == 0 || c == N + 1 ? 1 : N, first = c == 0 || c == N + 1 ? 0 : c - 1;
#pragma unroll
      for (int k = 0; k < V; ++k) {
        Float8 w = zero8();
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (columns.inside[k]) w.v[i] = gain.part[k].v[i] * to_float(from[(columns.at[k] + i) * stride + first]);
        *slot(c, k, 0) = make_float4(w.v[0], w.v[1], w.v[2], w.v[3]);
        *slot(c, k, 1) = make_float4(w.v[4], w.v[5], w.v[6], w.v[7]);
      }
    }
  }
  /// A thread reads what it wrote itself: no barrier.
  __device__ Wide<V> column(int c) const {
    Wide<V> w;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float4 a = *slot(c, k, 0), b = *slot(c, k, 1);
      w.part[k] = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    }
    return w;
  }

 private:
  __device__ float4* slot(int c, int k, int half) const { return memory_ + ((c * V + k) * 2 + half) * blockDim.x; }
  float4* memory_;
};

}  // namespace siamese::kernels
