// Backward pass of a tile with N_y alone: `pre`, and the attention of `siamese_hybrid` (c1). With t = γ_y g:
//   g_y = g_y' + ρ(t - ŷ·mean(ŷt) [- mean(t)]),  g_x̃ = g_X + c1⊙g,  g_w = g_y + a·g_x̃ (joined: in g_y's place)
//   z = c1⊙x̃ + γ_y ŷ [+ β_y],  dγ_y = Σ g ŷ,  dβ_y = Σ g,  dc1 = Σ g x̃
#pragma once

#include "kernels/cuda/step_tile_columns.cuh"

namespace siamese::kernels::tile {

template <Form form, bool layer, bool sample, class C, class T, class G>
__device__ __forceinline__ void backward_one_norm(const StepCuda& p, T& tile, const G& gains, Exchange<C::warp>& rows,
                                                  float inverse,
                                                  float (&sum)[Backward<form, layer, sample>::columns][C::E]) {
  using B = Backward<form, layer, sample>;
  constexpr bool two = B::two;
  constexpr int R = C::R, E = C::E;
  float y[R][E], t[R][E], x[R][E], v[R * (layer ? 2 : 1)], rho[R];
  Words<E> gy[R], update[R];
  float gain[E], bias[E], c1[E];
  gains.get(B::gain_y, gain);
  if constexpr (layer) gains.get(B::bias_u, bias);
  if constexpr (two) gains.get(B::gain_a, c1);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    rho[r] = tile.number(0, r);
    const float shift = layer ? -tile.number(1, r) * rho[r] : 0.f;
    float g[E], xs[E];
    widen(y[r], tile.get(B::kY, r));
    widen(g, tile.get(B::kGz, r));
    gy[r] = tile.get(B::kGy, r);
    if constexpr (sample) update[r] = tile.get(B::kR, r);
    float yt = 0.f, ts = 0.f;
#pragma unroll
    for (int i = 0; i < E; ++i) {
      y[r][i] = layer ? y[r][i] * rho[r] + shift : y[r][i] * rho[r];
      t[r][i] = gain[i] * g[i];
      yt += y[r][i] * t[r][i];
      if (layer) ts += t[r][i];
      sum[two ? 1 : 0][i] += g[i] * y[r][i];
      if (layer) sum[two ? 2 : 1][i] += g[i];
    }
    if constexpr (layer) {
      v[2 * r] = yt, v[2 * r + 1] = ts;
    } else {
      v[r] = yt;
    }
    if constexpr (two) {
      widen(xs, tile.get(B::kX, r));
      widen(x[r], tile.get(B::kGx, r));
    }
    if (p.z_again != nullptr) {
      float z[E];
#pragma unroll
      for (int i = 0; i < E; ++i) {
        z[i] = layer ? gain[i] * y[r][i] + bias[i] : gain[i] * y[r][i];
        if (two) z[i] += c1[i] * xs[i];
      }
      tile.put(p.z_again, r, z);
    }
    if constexpr (two) {
#pragma unroll
      for (int i = 0; i < E; ++i) {
        sum[0][i] += g[i] * xs[i];
        x[r][i] += c1[i] * g[i];
      }
      tile.put(p.g_x, r, x[r]);
    }
  }
  rows.sum(v);
  tile.refill();
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float s = rho[r] * inverse * v[layer ? 2 * r : r], level = layer ? rho[r] * inverse * v[2 * r + 1] : 0.f;
    float out[E];
    widen(out, gy[r]);
#pragma unroll
    for (int i = 0; i < E; ++i)
      out[i] += layer ? rho[r] * t[r][i] - level - s * y[r][i] : rho[r] * t[r][i] - s * y[r][i];
    if constexpr (two) {
      put_joined<C>(p, tile, r, out, x[r]);
    } else {
      tile.put(p.g_y, r, out);
    }
    put_update<B, sample, C>(p, tile, gains, r, out, update[r], sum);
  }
}

}  // namespace siamese::kernels::tile
