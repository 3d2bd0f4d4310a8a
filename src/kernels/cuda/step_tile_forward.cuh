// Forward pass of the stream step by tiles (formulas in stream_step.h).
#pragma once

#include "kernels/cuda/step_tile_statistics.cuh"

namespace siamese::kernels::tile {

template <Form form, bool layer, bool sample>
struct Forward {
  static constexpr bool two = form != Form::pre, whole = form == Form::whole;
  static_assert(!sample || (layer && form != Form::mixed));
  enum Input { kY, kR, kX, kInputs = two ? 3 : 2 };
  static constexpr unsigned maybe = 1U << kR;  // before the first sub-layer there is nothing to write
  // Vectors: γ_y, β_x + β_y, {γ_x | c1}, γ₀, β₀, γ_in, β_in; then the gate. The last norm's carry a sample's scale and
  // shift: γ(1 + scale), β(1 + scale) + shift.
  static constexpr int gain_y = 0, bias_u = 1, gain_a = layer ? 2 : 1, gain_before = gain_a + 1,
                       bias_before = gain_before + 1, gain_in = bias_before + (layer ? 1 : 0), bias_in = gain_in + 1;
  static constexpr int gate = (layer ? 2 : 1) * (whole ? 3
                                                 : two ? 2
                                                       : 1) +
                              (two ? 1 : 0),
                       gains = gate + (sample ? 1 : 0);
  static constexpr int numbers = two ? (layer ? 2 : 1) : 0;
  static constexpr __host__ __device__ Needs needs() {
    return {kInputs, numbers, gains, (whole ? 2 : 1) * (layer ? 2 : 1), 0};
  }
};

template <Form form, bool layer, bool sample, class C>
__global__ void __launch_bounds__(C::threads, 1) forward_kernel(StepCuda p, Plan plan) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using F = Forward<form, layer, sample>;
  constexpr bool two = F::two, whole = F::whole;
  constexpr int R = C::R, E = C::E;
  extern __shared__ __align__(128) char tile_memory[];
  char* memory = tile_memory;
  const Place at(C::warp ? 32 : 0);
  const int d = at.threads * E;
  const Layout lie(F::needs(), d, at.threads, at.groups, plan.stages, R);
  const void* const from[] = {p.y, p.r, p.x};  // in the order of Forward::Input
  Tiles<C, F::kInputs, F::numbers, F::maybe, sample> tile(memory, lie, plan.stages, p.rows, plan.tiles, from,
                                                          p.stats_before, 0, 3, at);

  Gains<C, F::gains> gains(memory + lie.gains, at);
  gains.template fill<F::gate>(at, [&](int c, float(&v)[F::gate]) {
    v[F::gain_y] = value_at(p.gain_y, c, 0.f);
    if constexpr (layer) v[F::bias_u] = value_at(p.bias_y, c, 0.f) + (whole ? value_at(p.bias_a, c, 0.f) : 0.f);
    if constexpr (two) {
      v[F::gain_a] = value_at(whole ? p.gain_a : p.c1, c, 0.f);
      v[F::gain_before] = value_at(p.gain_before, c, 0.f);
      if constexpr (layer) v[F::bias_before] = value_at(p.bias_before, c, 0.f);
    }
    if constexpr (whole) v[F::gain_in] = value_at(p.gain_in, c, 1.f);
    if constexpr (whole && layer) v[F::bias_in] = value_at(p.bias_in, c, 0.f);
  });
  Exchange<C::warp> rows(memory + lie.exchange, F::needs().values * R, at);
  __syncthreads();
  gains.settle(at);

  const bool before = two && p.stats_before != nullptr;
  const float inverse = 1.f / static_cast<float>(d);
  int part = -1;
  for (; tile.more(); tile.next()) {
    if constexpr (sample) {
      if (tile.part() != part) {
        part = tile.part();
        fill_of_sample(gains, p, part / plan.parts, whole ? p.gain_in : p.gain_y, whole ? p.bias_in : p.bias_y,
                       whole ? F::gain_in : F::gain_y, whole ? F::bias_in : F::bias_u, F::gate, at);
      }
    }
    tile.wait();
    float x[two ? R : 1][E], y[R][E];
    Statistics<layer, C, whole ? 2 * R : R> streams;  // of y', then of x̃
    Statistics<layer, C, R> in;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float w[E];
      widen(w, tile.get(F::kR, r));
      if constexpr (sample) {
        times(w, gains, F::gate);
      } else {
        drop(p, tile, r, w);
      }
      widen(y[r], tile.get(F::kY, r));
#pragma unroll
      for (int i = 0; i < E; ++i) y[r][i] += w[i];
      const Words<E> rounded = narrow(y[r]);
      if (p.y_out != nullptr) tile.put(p.y_out, r, rounded);
      widen(y[r], rounded);
      streams.add(r, y[r]);
      if constexpr (two) {
        widen(x[r], tile.get(F::kX, r));
        if (before) norm_before<layer>(x[r], tile, r, gains, F::gain_before, F::bias_before);
#pragma unroll
        for (int i = 0; i < E; ++i) x[r][i] += p.a * w[i];
        const Words<E> raw = narrow(x[r]);
        if (p.x_raw != nullptr) tile.put(p.x_raw, r, raw);
        widen(x[r], raw);
        if constexpr (whole) streams.add(R + r, x[r]);
      }
    }
    streams.finish(rows, inverse, p.eps);
    tile.refill();
    {  // u, in y's place
      float ga[E], gb[E], bias[E];
      gains.get(F::gain_y, gb);
      if constexpr (two) gains.get(F::gain_a, ga);
      if constexpr (layer) gains.get(F::bias_u, bias);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const float rho_y = streams.rho[r], shift_y = -streams.mean[r] * rho_y;
        const float rho_x = whole ? streams.rho[R + r] : 1.f, shift_x = whole ? -streams.mean[R + r] * rho_x : 0.f;
#pragma unroll
        for (int i = 0; i < E; ++i) {
          float u = layer ? gb[i] * (y[r][i] * rho_y + shift_y) + bias[i] : gb[i] * (y[r][i] * rho_y);
          if constexpr (whole) {
            u += ga[i] * (layer ? x[r][i] * rho_x + shift_x : x[r][i] * rho_x);
          } else if constexpr (two) {
            u += ga[i] * x[r][i];
          }
          y[r][i] = u;
        }
      }
    }
    if constexpr (whole) {
#pragma unroll
      for (int r = 0; r < R; ++r) in.add(r, y[r]);
      in.finish(rows, inverse, p.eps);
      if (!p.norm_in) {
#pragma unroll
        for (int r = 0; r < R; ++r) in.mean[r] = 0.f, in.rho[r] = 1.f;
      }
      float gain[E], bias[E];
      gains.get(F::gain_in, gain);
      if constexpr (layer) gains.get(F::bias_in, bias);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const float shift = -in.mean[r] * in.rho[r];
#pragma unroll
        for (int i = 0; i < E; ++i)
          y[r][i] = layer ? gain[i] * (y[r][i] * in.rho[r] + shift) + bias[i] : gain[i] * (y[r][i] * in.rho[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) tile.put(p.z, r, y[r]);
    put_statistics<layer, C>(p, tile, at, [&](int r, float(&all)[6]) {
      all[0] = whole ? streams.rho[R + r] : 1.f, all[1] = streams.rho[r], all[2] = whole ? in.rho[r] : 1.f;
      all[3] = whole ? streams.mean[R + r] : 0.f, all[4] = streams.mean[r], all[5] = whole ? in.mean[r] : 0.f;
    });
  }
#endif
}

}  // namespace siamese::kernels::tile
