// The stream step by tiles with a norm on r: `sandwich`, and `reordered` (without N_y).
//   w = s·N_r(r),  y' = y + w,  z = N_y(y') or y'
// Back, with t = γ_y g_z:
//   g_y = g_y' + ρ_y(t - ŷ·mean(ŷt) [- mean(t)]), or g_y' + g_z,  g_w = s·g_y,  q = γ_r g_w
//   g_r = ρ_r(q - r̂·mean(r̂q) [- mean(q)]),  dγ_y = Σ g_z ŷ,  dβ_y = Σ g_z,  dγ_r = Σ g_w r̂,  dβ_r = Σ g_w
#pragma once

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/step_tile_columns.cuh"
#include "kernels/cuda/step_tile_statistics.cuh"

namespace siamese::kernels::tile {

template <bool layer>
struct SandwichForward {
  enum Input { kY, kR, kInputs };
  static constexpr int gain_r = 0, gain_y = 1, bias_r = 2, bias_y = 3, gains = layer ? 4 : 2;
  static constexpr __host__ __device__ Needs needs() { return {kInputs, 0, gains, layer ? 2 : 1, 0}; }
};

template <bool layer, class C>
__global__ void __launch_bounds__(C::threads, 1) sandwich_forward_kernel(StepCuda p, Plan plan) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using F = SandwichForward<layer>;
  constexpr int R = C::R, E = C::E;
  extern __shared__ __align__(128) char tile_memory[];
  char* memory = tile_memory;
  const Place at(C::warp ? 32 : 0);
  const int d = at.threads * E;
  const Layout lie(F::needs(), d, at.threads, at.groups, plan.stages, R);
  const void* const from[] = {p.y, p.r};  // in the order of SandwichForward::Input
  Tiles<C, F::kInputs, 0, 0, false> tile(memory, lie, plan.stages, p.rows, plan.tiles, from, nullptr, 0, 0, at);
  Gains<C, F::gains> gains(memory + lie.gains, at);
  gains.template fill<F::gains>(at, [&](int c, float(&v)[F::gains]) {
    v[F::gain_r] = value_at(p.gain_a, c, 0.f), v[F::gain_y] = value_at(p.gain_y, c, 0.f);
    if constexpr (layer) v[F::bias_r] = value_at(p.bias_a, c, 0.f), v[F::bias_y] = value_at(p.bias_y, c, 0.f);
  });
  Exchange<C::warp> rows(memory + lie.exchange, F::needs().values * R, at);
  __syncthreads();
  gains.settle(at);

  const float inverse = 1.f / static_cast<float>(d);
  auto normed = [&](float(&v)[E], float mean, float rho, int of_gain, int of_bias) {
    float gain[E], bias[E];
    gains.get(of_gain, gain);
    if constexpr (layer) gains.get(of_bias, bias);
    const float shift = -mean * rho;
#pragma unroll
    for (int i = 0; i < E; ++i) v[i] = layer ? gain[i] * (v[i] * rho + shift) + bias[i] : gain[i] * (v[i] * rho);
  };
  for (; tile.more(); tile.next()) {
    tile.wait();
    float w[R][E];
    Words<E> y[R];
    Statistics<layer, C, R> of_r, of_y;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      y[r] = tile.get(F::kY, r);
      widen(w[r], tile.get(F::kR, r));
      of_r.add(r, w[r]);
    }
    of_r.finish(rows, inverse, p.eps);
    tile.refill();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float to[E];
      widen(to, y[r]);
      normed(w[r], of_r.mean[r], of_r.rho[r], F::gain_r, F::bias_r);
      drop(p, tile, r, w[r]);
#pragma unroll
      for (int i = 0; i < E; ++i) to[i] += w[r][i];
      y[r] = narrow(to);
      if (p.y_out != nullptr) tile.put(p.y_out, r, y[r]);
      widen(w[r], y[r]);  // y', in w's place
      of_y.add(r, w[r]);
    }
    if (p.norm_y) {
      of_y.finish(rows, inverse, p.eps);
#pragma unroll
      for (int r = 0; r < R; ++r) normed(w[r], of_y.mean[r], of_y.rho[r], F::gain_y, F::bias_y);
    } else {
#pragma unroll
      for (int r = 0; r < R; ++r) of_y.mean[r] = 0.f, of_y.rho[r] = 1.f;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) tile.put(p.z, r, w[r]);
    put_statistics<layer, C>(p, tile, at, [&](int r, float(&all)[6]) {
      all[0] = of_r.rho[r], all[1] = of_y.rho[r], all[2] = 1.f;
      all[3] = of_r.mean[r], all[4] = of_y.mean[r], all[5] = 0.f;
    });
  }
#endif
}

template <bool layer>
struct SandwichBackward {
  enum Input { kR, kGz, kGy, kY, kInputs };
  static constexpr unsigned maybe = 1U << kGy | 1U << kY;  // without N_y, y' is asked for only as z
  static constexpr int gain_r = 0, gain_y = 1, bias_y = 2, gains = layer ? 3 : 2;
  static constexpr int numbers = layer ? 5 : 2;  // ρ of r, y; then, past one that is not read, μ of r, y
  static constexpr int columns = layer ? 4 : 2;
  static constexpr __host__ __device__ Needs needs() { return {kInputs, numbers, gains, layer ? 2 : 1, columns}; }
  static constexpr __host__ __device__ int column(int c) {
    return c == 0 ? kStepGainA : c == 1 ? kStepGainY : c == 2 ? kStepBiasA : kStepBiasY;
  }
};

template <bool layer, class C>
__global__ void __launch_bounds__(C::threads, 1) sandwich_backward_kernel(StepCuda p, Plan plan) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using B = SandwichBackward<layer>;
  constexpr int R = C::R, E = C::E, N = layer ? 2 : 1;
  extern __shared__ __align__(128) char tile_memory[];
  char* memory = tile_memory;
  const Place at(C::warp ? 32 : 0);
  const int d = at.threads * E;
  const Layout lie(B::needs(), d, at.threads, at.groups, plan.stages, R);
  const bool norm_y = p.norm_y, again = p.z_again != nullptr;
  const void* const from[] = {p.r, p.g_z, p.g_y_out, norm_y || again ? p.y : nullptr};  // in the order of Input
  Tiles<C, B::kInputs, B::numbers, B::maybe, false> tile(memory, lie, plan.stages, p.rows, plan.tiles, from, p.stats, 0,
                                                         1, at);
  allow_next();
  Gains<C, B::gains> gains(memory + lie.gains, at);
  gains.template fill<B::gains>(at, [&](int c, float(&v)[B::gains]) {
    v[B::gain_r] = value_at(p.gain_a, c, 0.f), v[B::gain_y] = value_at(norm_y ? p.gain_y : nullptr, c, 1.f);
    if constexpr (layer) v[B::bias_y] = value_at(norm_y ? p.bias_y : nullptr, c, 0.f);
  });
  Exchange<C::warp> rows(memory + lie.exchange, B::needs().values * R, at);
  __syncthreads();
  gains.settle(at);

  float sum[B::columns][E] = {};
  const float inverse = 1.f / static_cast<float>(d);
  for (; tile.more(); tile.next()) {
    tile.wait();
    float x[R][E], y[R][E], g[R][E], gy[R][E], v[R * N], q[R * N], rho_r[R], rho_y[R];
    float gain[E], bias[E];
    gains.get(B::gain_y, gain);
    if constexpr (layer) gains.get(B::bias_y, bias);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      rho_r[r] = tile.number(0, r), rho_y[r] = tile.number(1, r);
      const float shift_r = layer ? -tile.number(layer ? 3 : 0, r) * rho_r[r] : 0.f;
      const float shift_y = layer ? -tile.number(layer ? 4 : 0, r) * rho_y[r] : 0.f;
      float yt = 0.f, ts = 0.f;
      widen(x[r], tile.get(B::kR, r));
      widen(y[r], tile.get(B::kY, r));
      widen(g[r], tile.get(B::kGz, r));
      widen(gy[r], tile.get(B::kGy, r));
#pragma unroll
      for (int i = 0; i < E; ++i) {
        x[r][i] = layer ? x[r][i] * rho_r[r] + shift_r : x[r][i] * rho_r[r];
        y[r][i] = layer ? y[r][i] * rho_y[r] + shift_y : y[r][i] * rho_y[r];
        sum[1][i] += g[r][i] * y[r][i];
        if constexpr (layer) sum[3][i] += g[r][i];
        g[r][i] *= gain[i];
        yt += y[r][i] * g[r][i];
        if constexpr (layer) ts += g[r][i];
      }
      v[r * N] = yt;
      if constexpr (layer) v[r * N + 1] = ts;
      if (again) {
        float z[E];
#pragma unroll
        for (int i = 0; i < E; ++i) z[i] = layer ? gain[i] * y[r][i] + bias[i] : gain[i] * y[r][i];
        tile.put(p.z_again, r, z);
      }
    }
    if (norm_y) {
      rows.sum(v);
      tile.refill();
    }
    gains.get(B::gain_r, gain);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float share = norm_y ? rho_y[r] * inverse : 0.f, s = share * v[r * N],
                  level = layer ? share * v[r * N + N - 1] : 0.f;
#pragma unroll
      for (int i = 0; i < E; ++i) gy[r][i] += rho_y[r] * g[r][i] - level - s * y[r][i];
      tile.put(p.g_y, r, gy[r]);
      drop(p, tile, r, gy[r]);
      float xq = 0.f, qs = 0.f;
#pragma unroll
      for (int i = 0; i < E; ++i) {
        sum[0][i] += gy[r][i] * x[r][i];
        if constexpr (layer) sum[2][i] += gy[r][i];
        gy[r][i] *= gain[i];  // q
        xq += x[r][i] * gy[r][i];
        if constexpr (layer) qs += gy[r][i];
      }
      q[r * N] = xq;
      if constexpr (layer) q[r * N + 1] = qs;
    }
    rows.sum(q);
    if (!norm_y) tile.refill();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float share = rho_r[r] * inverse, s = share * q[r * N], level = layer ? share * q[r * N + N - 1] : 0.f;
#pragma unroll
      for (int i = 0; i < E; ++i) gy[r][i] = rho_r[r] * gy[r][i] - level - s * x[r][i];
      if (p.g_r != nullptr) tile.put(p.g_r, r, gy[r]);
    }
  }
  rows.group_sync();
  write_columns<B, C>(sum, memory, lie, p.partial + static_cast<int64_t>(blockIdx.x) * (layer ? 6 : 3) * d, at);
#endif
}

}  // namespace siamese::kernels::tile
