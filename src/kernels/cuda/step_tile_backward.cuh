// Backward pass of the stream step by tiles: the kernel.
#pragma once

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/step_tile_all_norms.cuh"
#include "kernels/cuda/step_tile_one_norm.cuh"

namespace siamese::kernels::tile {

template <Form form, bool layer, bool sample, class C>
__global__ void __launch_bounds__(C::threads, 1) backward_kernel(StepCuda p, Plan plan) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using B = Backward<form, layer, sample>;
  constexpr int kFirst = B::whole ? 0 : 1, kApart = B::whole ? 1 : 3;  // statistics read: all, or those of y
  extern __shared__ __align__(128) char tile_memory[];
  char* memory = tile_memory;
  const Place at(C::warp ? 32 : 0);
  const int d = at.threads * C::E;
  const Layout lie(B::needs(), d, at.threads, at.groups, plan.stages, C::R);
  const void* const both[] = {p.y, p.g_z, p.g_y_out, p.x, p.g_x_out, p.r};  // in the order of Backward::Input
  const void* const one[] = {p.y, p.g_z, p.g_y_out, p.r};
  Tiles<C, B::kInputs, B::numbers, B::maybe, sample> tile(memory, lie, plan.stages, p.rows, plan.tiles,
                                                          B::two ? both : one, p.stats, kFirst, kApart, at);
  allow_next();

  Gains<C, B::gains> gains(memory + lie.gains, at);
  gains.template fill<B::gate>(at, [&](int c, float(&v)[B::gate]) {
    v[B::gain_y] = value_at(p.gain_y, c, 0.f);
    if constexpr (B::two) v[B::gain_a] = value_at(B::whole ? p.gain_a : p.c1, c, 0.f);
    if constexpr (B::whole) v[B::gain_in] = value_at(p.gain_in, c, 1.f);
    if constexpr (layer) v[B::bias_u] = value_at(p.bias_y, c, 0.f) + (B::whole ? value_at(p.bias_a, c, 0.f) : 0.f);
    if constexpr (layer && B::whole) v[B::bias_in] = value_at(p.bias_in, c, 0.f);
  });
  Exchange<C::warp> rows(memory + lie.exchange, B::needs().values * C::R, at);
  __syncthreads();
  gains.settle(at);

  float sum[B::columns][C::E];
#pragma unroll
  for (int c = 0; c < B::columns; ++c) {
#pragma unroll
    for (int i = 0; i < C::E; ++i) sum[c][i] = 0.f;
  }
  const float inverse = 1.f / static_cast<float>(d);
  int part = -1;
  auto end_part = [&] {
    float* out = p.partial + (static_cast<int64_t>(gridDim.x) * 6 + static_cast<int64_t>(part) * 3) * d;
    write_sample<B, C>(sum, reinterpret_cast<float*>(memory + lie.samples),
                       p.row_scale != nullptr ? p.row_scale[part / plan.parts] : 1.f, out, at);
  };
  for (; tile.more(); tile.next()) {
    if constexpr (sample) {
      if (tile.part() != part) {
        if (part >= 0) end_part();
        part = tile.part();
        fill_of_sample(gains, p, part / plan.parts, B::whole ? p.gain_in : p.gain_y, B::whole ? p.bias_in : p.bias_y,
                       B::whole ? B::gain_in : B::gain_y, B::whole ? B::bias_in : B::bias_u, B::gate, at);
      }
    }
    tile.wait();
    if constexpr (!B::whole) {
      backward_one_norm<form, layer, sample, C>(p, tile, gains, rows, inverse, sum);
    } else if constexpr (layer) {
      backward_all_layer<sample, C>(p, tile, gains, rows, inverse, sum);
    } else {
      backward_all_rms<C>(p, tile, gains, rows, inverse, sum);
    }
  }
  if constexpr (sample) end_part();
  rows.group_sync();
  write_columns<B, C>(sum, memory, lie, p.partial + static_cast<int64_t>(blockIdx.x) * (layer ? 6 : 3) * d, at);
#endif
}

}  // namespace siamese::kernels::tile
