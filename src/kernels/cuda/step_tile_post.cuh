// The stream step by tiles where z is N_x alone: `post`, and `resi_dual` (dual), whose y is written but not read.
//   x̃ = X₀ + a·w,  y' = y + w,  z = X = N_x(x̃)
// Back, with g = g_z + g_X and t = γ_x g:
//   g_x̃ = ρ(t - x̂·mean(x̂t) [- mean(t)]),  g_y = g_y',  g_w = g_y + a·g_x̃ (joined: in g_y's place)
//   dγ_x = Σ g x̂,  dβ_x = Σ g
#pragma once

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/step_tile_columns.cuh"
#include "kernels/cuda/step_tile_statistics.cuh"

namespace siamese::kernels::tile {

template <bool dual, bool layer>
struct PostForward {
  enum Input { kX, kR, kY, kInputs = dual ? 3 : 2 };
  static constexpr unsigned maybe = 1U << kR;  // before the first sub-layer there is nothing to write
  static constexpr int gain = 0, gain_before = 1, bias = 2, bias_before = 3, gains = layer ? 4 : 2;
  static constexpr int numbers = layer ? 2 : 1;
  static constexpr __host__ __device__ Needs needs() { return {kInputs, numbers, gains, layer ? 2 : 1, 0}; }
};

template <bool dual, bool layer, class C>
__global__ void __launch_bounds__(C::threads, 1) post_forward_kernel(StepCuda p, Plan plan) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using F = PostForward<dual, layer>;
  constexpr int R = C::R, E = C::E;
  extern __shared__ __align__(128) char tile_memory[];
  char* memory = tile_memory;
  const Place at(C::warp ? 32 : 0);
  const int d = at.threads * E;
  const Layout lie(F::needs(), d, at.threads, at.groups, plan.stages, R);
  const void* const from[] = {p.x, p.r, p.y};  // in the order of PostForward::Input
  Tiles<C, F::kInputs, F::numbers, F::maybe, false> tile(memory, lie, plan.stages, p.rows, plan.tiles, from,
                                                         p.stats_before, 0, 3, at);
  Gains<C, F::gains> gains(memory + lie.gains, at);
  gains.template fill<F::gains>(at, [&](int c, float(&v)[F::gains]) {
    v[F::gain] = value_at(p.gain_a, c, 0.f), v[F::gain_before] = value_at(p.gain_before, c, 0.f);
    if constexpr (layer) v[F::bias] = value_at(p.bias_a, c, 0.f), v[F::bias_before] = value_at(p.bias_before, c, 0.f);
  });
  Exchange<C::warp> rows(memory + lie.exchange, F::needs().values * R, at);
  __syncthreads();
  gains.settle(at);

  const float inverse = 1.f / static_cast<float>(d);
  for (; tile.more(); tile.next()) {
    tile.wait();
    float x[R][E];
    Statistics<layer, C, R> of_x;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float w[E];
      widen(w, tile.get(F::kR, r));
      drop(p, tile, r, w);
      if constexpr (dual) {
        float y[E];
        widen(y, tile.get(F::kY, r));
#pragma unroll
        for (int i = 0; i < E; ++i) y[i] += w[i];
        if (p.y_out != nullptr) tile.put(p.y_out, r, y);
      }
      widen(x[r], tile.get(F::kX, r));
      if (p.stats_before != nullptr) norm_before<layer>(x[r], tile, r, gains, F::gain_before, F::bias_before);
#pragma unroll
      for (int i = 0; i < E; ++i) x[r][i] += p.a * w[i];
      const Words<E> raw = narrow(x[r]);
      if (p.x_raw != nullptr) tile.put(p.x_raw, r, raw);
      widen(x[r], raw);
      of_x.add(r, x[r]);
    }
    of_x.finish(rows, inverse, p.eps);
    tile.refill();
    float gain[E], bias[E];
    gains.get(F::gain, gain);
    if constexpr (layer) gains.get(F::bias, bias);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float rho = of_x.rho[r], shift = -of_x.mean[r] * rho;
#pragma unroll
      for (int i = 0; i < E; ++i)
        x[r][i] = layer ? gain[i] * (x[r][i] * rho + shift) + bias[i] : gain[i] * (x[r][i] * rho);
      tile.put(p.z, r, x[r]);
    }
    put_statistics<layer, C>(p, tile, at, [&](int r, float(&all)[6]) {
      all[0] = of_x.rho[r], all[1] = all[2] = 1.f, all[3] = of_x.mean[r], all[4] = all[5] = 0.f;
    });
  }
#endif
}

template <bool dual, bool layer>
struct PostBackward {
  enum Input { kX, kGz, kGx, kGy, kInputs = dual ? 4 : 3 };
  static constexpr unsigned maybe = 1U << kGx | (dual ? 1U << kGy : 0U);  // at the end only z has a gradient
  static constexpr int gain = 0, bias = 1, gains = layer ? 2 : 1, numbers = layer ? 2 : 1;
  static constexpr int columns = layer ? 2 : 1;
  static constexpr __host__ __device__ Needs needs() { return {kInputs, numbers, gains, layer ? 2 : 1, columns}; }
  static constexpr __host__ __device__ int column(int c) { return c == 0 ? kStepGainA : kStepBiasA; }
};

template <bool dual, bool layer, class C>
__global__ void __launch_bounds__(C::threads, 1) post_backward_kernel(StepCuda p, Plan plan) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using B = PostBackward<dual, layer>;
  constexpr int R = C::R, E = C::E, N = layer ? 2 : 1;
  extern __shared__ __align__(128) char tile_memory[];
  char* memory = tile_memory;
  const Place at(C::warp ? 32 : 0);
  const int d = at.threads * E;
  const Layout lie(B::needs(), d, at.threads, at.groups, plan.stages, R);
  const void* const from[] = {p.x, p.g_z, p.g_x_out, p.g_y_out};  // in the order of PostBackward::Input
  Tiles<C, B::kInputs, B::numbers, B::maybe, false> tile(memory, lie, plan.stages, p.rows, plan.tiles, from, p.stats, 0,
                                                         3, at);
  allow_next();
  Gains<C, B::gains> gains(memory + lie.gains, at);
  gains.template fill<B::gains>(at, [&](int c, float(&v)[B::gains]) {
    v[B::gain] = value_at(p.gain_a, c, 0.f);
    if constexpr (layer) v[B::bias] = value_at(p.bias_a, c, 0.f);
  });
  Exchange<C::warp> rows(memory + lie.exchange, B::needs().values * R, at);
  __syncthreads();
  gains.settle(at);

  float sum[B::columns][E] = {};
  const float inverse = 1.f / static_cast<float>(d);
  for (; tile.more(); tile.next()) {
    tile.wait();
    float x[R][E], t[R][E], gy[R][E], v[R * N], rho[R], gain[E], bias[E];
    gains.get(B::gain, gain);
    if constexpr (layer) gains.get(B::bias, bias);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      rho[r] = tile.number(0, r);
      const float shift = layer ? -tile.number(1, r) * rho[r] : 0.f;
      float g[E], gx[E], xt = 0.f, ts = 0.f;
      widen(x[r], tile.get(B::kX, r));
      widen(g, tile.get(B::kGz, r));
      widen(gx, tile.get(B::kGx, r));
      if constexpr (dual) {
        widen(gy[r], tile.get(B::kGy, r));
        take_apart(gy[r], gx, p.a_next);
      }
#pragma unroll
      for (int i = 0; i < E; ++i) {
        x[r][i] = layer ? x[r][i] * rho[r] + shift : x[r][i] * rho[r];
        g[i] += gx[i];
        t[r][i] = gain[i] * g[i];
        xt += x[r][i] * t[r][i];
        if constexpr (layer) ts += t[r][i];
        sum[0][i] += g[i] * x[r][i];
        if constexpr (layer) sum[1][i] += g[i];
      }
      v[r * N] = xt;
      if constexpr (layer) v[r * N + 1] = ts;
      if (p.z_again != nullptr) {
        float z[E];
#pragma unroll
        for (int i = 0; i < E; ++i) z[i] = layer ? gain[i] * x[r][i] + bias[i] : gain[i] * x[r][i];
        tile.put(p.z_again, r, z);
      }
    }
    rows.sum(v);
    tile.refill();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float share = rho[r] * inverse, s = share * v[r * N], level = layer ? share * v[r * N + N - 1] : 0.f;
#pragma unroll
      for (int i = 0; i < E; ++i) t[r][i] = rho[r] * t[r][i] - level - s * x[r][i];
      tile.put(p.g_x, r, t[r]);
      if constexpr (dual) {
        put_joined<C>(p, tile, r, gy[r], t[r]);
      } else {
#pragma unroll
        for (int i = 0; i < E; ++i) gy[r][i] = p.a * t[r][i];
      }
      put_update<B, false, C>(p, tile, gains, r, gy[r], {}, sum);
    }
  }
  rows.group_sync();
  write_columns<B, C>(sum, memory, lie, p.partial + static_cast<int64_t>(blockIdx.x) * (layer ? 6 : 3) * d, at);
#endif
}

}  // namespace siamese::kernels::tile
