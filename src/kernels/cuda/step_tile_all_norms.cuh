// Backward pass of a tile with N_x, N_y and N_in: `siamese`. With t = γ_in g, û = ρ_in(u [- μ]):
//   g_u = ρ_in(t - û·mean(ût) [- mean(t)]),  t_x = γ_x(g_X + g_u),  t_y = γ_y g_u
//   g_x̃ = ρ_x(t_x - x̂·mean(x̂t_x) [- mean(t_x)]),  g_y = g_y' + ρ_y(t_y - ŷ·mean(ŷt_y) [- mean(t_y)])
// and g_w = g_y + a·g_x̃, in g_y's place where they are joined; the column sums are as in step_backward.cuh. Without
// N_in its statistics are those of the identity (ρ = 1, μ = 0), and g_u = t.
#pragma once

#include "kernels/cuda/step_tile_columns.cuh"

namespace siamese::kernels::tile {

/// LayerNorm, two exchanges: Σût, Σt; then, with g_u known, Σx̂t_x, Σt_x, Σŷt_y, Σt_y.
template <bool sample, class C, class T, class G>
__device__ __forceinline__ void backward_all_layer(const StepCuda& p, T& tile, const G& gains, Exchange<C::warp>& rows,
                                                   float inverse,
                                                   float (&sum)[Backward<Form::whole, true, sample>::columns][C::E]) {
  using B = Backward<Form::whole, true, sample>;
  constexpr int R = C::R, E = C::E;
  float x[R][E], y[R][E], u[R][E], g[R][E], to_x[R][E], v[2 * R], w[4 * R];
  float gy[R][E];
  Words<E> update[R];
  float rho_x[R], rho_y[R], rho_in[R];
  {
    float ga[E], gb[E], gin[E], bias[E];
    gains.get(B::gain_a, ga), gains.get(B::gain_y, gb), gains.get(B::gain_in, gin), gains.get(B::bias_u, bias);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      rho_x[r] = tile.number(0, r), rho_y[r] = tile.number(1, r), rho_in[r] = tile.number(2, r);
      const float shift_x = -tile.number(3, r) * rho_x[r], shift_y = -tile.number(4, r) * rho_y[r],
                  shift_in = -tile.number(5, r) * rho_in[r];
      widen(y[r], tile.get(B::kY, r));
      widen(g[r], tile.get(B::kGz, r));
      widen(gy[r], tile.get(B::kGy, r));
      if constexpr (sample) update[r] = tile.get(B::kR, r);
      widen(x[r], tile.get(B::kX, r));
      widen(to_x[r], tile.get(B::kGx, r));
      take_apart(gy[r], to_x[r], p.a_next);
      float ut = 0.f, ts = 0.f;
#pragma unroll
      for (int i = 0; i < E; ++i) {
        x[r][i] = x[r][i] * rho_x[r] + shift_x;
        y[r][i] = y[r][i] * rho_y[r] + shift_y;
        u[r][i] = (ga[i] * x[r][i] + (gb[i] * y[r][i] + bias[i])) * rho_in[r] + shift_in;
        const float t = gin[i] * g[r][i];
        ut += u[r][i] * t;
        ts += t;
        sum[kStepGainIn][i] += g[r][i] * u[r][i];
        sum[kStepBiasIn][i] += g[r][i];
      }
      v[2 * r] = ut, v[2 * r + 1] = ts;
    }
    if (p.z_again != nullptr) {
      float out[E];
      gains.get(B::bias_in, bias);
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int i = 0; i < E; ++i) out[i] = gin[i] * u[r][i] + bias[i];
        tile.put(p.z_again, r, out);
      }
    }
  }
  rows.sum(v);
  tile.refill();
  {
    float ga[E], gb[E], gin[E];
    gains.get(B::gain_a, ga), gains.get(B::gain_y, gb), gains.get(B::gain_in, gin);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float share = p.norm_in ? rho_in[r] * inverse : 0.f, s = share * v[2 * r], level = share * v[2 * r + 1];
      float xt = 0.f, tx = 0.f, yt = 0.f, ty = 0.f;
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float gu = rho_in[r] * (gin[i] * g[r][i]) - level - s * u[r][i], gX = to_x[r][i] + gu;
        sum[kStepGainA][i] += gX * x[r][i];
        sum[kStepBiasA][i] += gX;
        sum[kStepGainY][i] += gu * y[r][i];
        sum[kStepBiasY][i] += gu;
        to_x[r][i] = ga[i] * gX;  // t_x, and t_y in g's place
        g[r][i] = gb[i] * gu;
        xt += x[r][i] * to_x[r][i];
        tx += to_x[r][i];
        yt += y[r][i] * g[r][i];
        ty += g[r][i];
      }
      w[4 * r] = xt, w[4 * r + 1] = tx, w[4 * r + 2] = yt, w[4 * r + 3] = ty;
    }
  }
  rows.sum(w);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float of_x = rho_x[r] * inverse, of_y = rho_y[r] * inverse;
    const float sx = of_x * w[4 * r], level_x = of_x * w[4 * r + 1], sy = of_y * w[4 * r + 2],
                level_y = of_y * w[4 * r + 3];
    float(&out)[E] = gy[r];
#pragma unroll
    for (int i = 0; i < E; ++i) {
      to_x[r][i] = rho_x[r] * to_x[r][i] - level_x - sx * x[r][i];
      out[i] += rho_y[r] * g[r][i] - level_y - sy * y[r][i];
    }
    tile.put(p.g_x, r, to_x[r]);
    put_joined<C>(p, tile, r, out, to_x[r]);
    put_update<B, sample, C>(p, tile, gains, r, out, update[r], sum);
  }
}

/// RMSNorm, one exchange: with A = γ_x x̂ and B = γ_y ŷ, so that u = A + B: Σ A g_X, Σ At, Σ Bt, Σ Au. The rest follows:
/// mean(ut) is the sum of two of them, and mean(Au) + mean(Bu) = mean(u²) = 1/ρ_in² - ε.
template <class C, class T, class G>
__device__ __forceinline__ void backward_all_rms(const StepCuda& p, T& tile, const G& gains, Exchange<C::warp>& rows,
                                                 float inverse, float (&sum)[3][C::E]) {
  using B = Backward<Form::whole, false, false>;
  constexpr int R = C::R, E = C::E;
  float x[R][E], y[R][E], u[R][E], g[R][E], to_x[R][E], v[4 * R];
  float gy[R][E];
  float rho_x[R], rho_y[R], rho_in[R];
  float ga[E], gb[E], gin[E];
  gains.get(B::gain_a, ga), gains.get(B::gain_y, gb), gains.get(B::gain_in, gin);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    rho_x[r] = tile.number(0, r), rho_y[r] = tile.number(1, r), rho_in[r] = tile.number(2, r);
    widen(y[r], tile.get(B::kY, r));
    widen(g[r], tile.get(B::kGz, r));
    widen(gy[r], tile.get(B::kGy, r));
    widen(x[r], tile.get(B::kX, r));
    widen(to_x[r], tile.get(B::kGx, r));
    take_apart(gy[r], to_x[r], p.a_next);
    float ag = 0.f, at = 0.f, bt = 0.f, au = 0.f;
#pragma unroll
    for (int i = 0; i < E; ++i) {
      x[r][i] *= rho_x[r];
      y[r][i] *= rho_y[r];
      const float a = ga[i] * x[r][i], b = gb[i] * y[r][i], t = gin[i] * g[r][i];
      u[r][i] = a + b;
      ag += a * to_x[r][i];
      at += a * t;
      bt += b * t;
      au += a * u[r][i];
    }
    v[4 * r] = ag, v[4 * r + 1] = at, v[4 * r + 2] = bt, v[4 * r + 3] = au;
    if (p.z_again != nullptr) {
      float out[E];
#pragma unroll
      for (int i = 0; i < E; ++i) out[i] = gin[i] * (u[r][i] * rho_in[r]);
      tile.put(p.z_again, r, out);
    }
  }
  rows.sum(v);
  tile.refill();
  gains.get(B::gain_a, ga), gains.get(B::gain_y, gb), gains.get(B::gain_in, gin);  // again: they need not stay
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float rho = rho_in[r], square = 1.f / (rho * rho) - p.eps;
    const float ag = inverse * v[4 * r], at = inverse * v[4 * r + 1], bt = inverse * v[4 * r + 2],
                au = inverse * v[4 * r + 3];
    const float c = p.norm_in ? rho * rho * rho * (at + bt) : 0.f;  // g_u = ρt - c·u
    const float sx = rho_x[r] * (ag + rho * at - c * au), sy = rho_y[r] * (rho * bt - c * (square - au));
    float(&out)[E] = gy[r];
#pragma unroll
    for (int i = 0; i < E; ++i) {
      const float scaled = rho * g[r][i], gu = gin[i] * scaled - c * u[r][i], gX = to_x[r][i] + gu;
      sum[kStepGainIn][i] += scaled * u[r][i];
      sum[kStepGainA][i] += gX * x[r][i];
      sum[kStepGainY][i] += gu * y[r][i];
      to_x[r][i] = rho_x[r] * (ga[i] * gX) - sx * x[r][i];
      out[i] += rho_y[r] * (gb[i] * gu) - sy * y[r][i];
    }
    tile.put(p.g_x, r, to_x[r]);
    put_joined<C>(p, tile, r, out, to_x[r]);
    put_update<B, false, C>(p, tile, gains, r, out, {}, sum);
  }
}

}  // namespace siamese::kernels::tile
