// Shared by the forward passes of the stream step by tiles: a row's statistics, and what happens to r and x before.
#pragma once

#include "kernels/cuda/step_tile_row.cuh"

namespace siamese::kernels::tile {

/// A row's statistics: mean (LayerNorm, otherwise 0) and ρ, of N rows at once. The variance is that of the squares less
/// the mean's square, in one pass: at a mean of m deviations it is off by some 1e-6·m², while the streams' own rounding
/// to bf16 has moved each value by up to m/256 deviations. u is a sum of normed rows: its m is small.
template <bool layer, class C, int N>
class Statistics {
 public:
  float mean[N], rho[N];

  __device__ __forceinline__ void add(int n, const float (&v)[C::E]) {
    float sum = 0.f, squares = 0.f;
#pragma unroll
    for (int i = 0; i < C::E; ++i) {
      if constexpr (layer) sum += v[i];
      squares += v[i] * v[i];
    }
    if constexpr (layer) all_[N + n] = sum;
    all_[n] = squares;
  }
  /// After add of all N.
  __device__ __forceinline__ void finish(Exchange<C::warp>& rows, float inverse, float eps) {
    rows.sum(all_);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      mean[n] = layer ? all_[layer ? N + n : 0] * inverse : 0.f;
      rho[n] = rsqrtf((layer ? fmaxf(all_[n] * inverse - mean[n] * mean[n], 0.f) : all_[n] * inverse) + eps);
    }
  }

 private:
  float all_[layer ? 2 * N : N];  // squares, then the values themselves
};

/// Statistics of a tile's rows to memory, by StepCuda::stats: of(r, all) gives row r's six.
template <bool layer, class C, class T, class F>
__device__ __forceinline__ void put_statistics(const StepCuda& p, const T& tile, const Place& at, const F& of) {
  if (at.warp != 0) return;
  static_assert(8 * C::R <= 32);  // lane 8r + k: statistic k of row r
  constexpr int kinds = layer ? 6 : 3;
  float mine = 0.f;
#pragma unroll
  for (int r = 0; r < C::R; ++r) {
    float all[6];
    of(r, all);
#pragma unroll
    for (int k = 0; k < kinds; ++k)
      if (at.lane == 8 * r + k) mine = all[k];
  }
  const int k = at.lane % 8, r = at.lane / 8;
  if (k < kinds && r < C::R) p.stats[k * p.rows + tile.row() + r] = mine;
}

/// The norm pending on row r of x: its statistics are the tile's numbers. In the order of the row-a-warp kernels: x̃ is
/// rounded to bf16, and has the same bits from both.
template <bool layer, int E, class T, class G>
__device__ __forceinline__ void norm_before(float (&x)[E], const T& tile, int r, const G& gains, int to_gain,
                                            int to_bias) {
  float gain[E], bias[E];
  gains.get(to_gain, gain);
  if constexpr (layer) gains.get(to_bias, bias);
  const float rho = tile.number(0, r), mean = layer ? tile.number(1, r) : 0.f;
#pragma unroll
  for (int i = 0; i < E; ++i) x[i] = layer ? (x[i] - mean) * rho * gain[i] + bias[i] : x[i] * rho * gain[i];
}

}  // namespace siamese::kernels::tile
