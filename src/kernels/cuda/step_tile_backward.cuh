// Backward pass of the stream step by tiles: the kernel.
#pragma once

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/step_tile_all_norms.cuh"
#include "kernels/cuda/step_tile_one_norm.cuh"

namespace siamese::kernels::tile {

template <Form form, bool layer, class C>
__global__ void __launch_bounds__(C::threads, 1) backward_kernel(StepCuda p, int stages) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using B = Backward<form, layer>;
  constexpr int kFirst = B::whole ? 0 : 1, kApart = B::whole ? 1 : 3;  // statistics read: all, or those of y
  extern __shared__ __align__(128) char tile_memory[];
  char* memory = tile_memory;
  const Place at;
  const int d = at.threads * C::E;
  const Layout lie(B::needs(), d, at.threads, at.groups, stages, C::R);
  const void* const from[] = {p.y, p.g_z, p.g_y_out, p.x, p.g_x_out};  // in the order of Backward::Input
  Tiles<C, B::kInputs, B::numbers> tile(memory, lie, stages, p.rows, from, p.stats, kFirst, kApart, at);
  allow_next();

  Gains<C, B::gains> gains(memory + lie.gains, at);
  gains.fill(B::gain_y, p.gain_y, nullptr, at);
  if constexpr (B::two) gains.fill(B::gain_a, B::whole ? p.gain_a : p.c1, nullptr, at);
  if constexpr (B::whole) gains.fill(B::gain_in, p.gain_in, nullptr, at);
  if constexpr (layer) gains.fill(B::bias_u, p.bias_y, B::whole ? p.bias_a : nullptr, at);
  if constexpr (layer && B::whole) gains.fill(B::bias_in, p.bias_in, nullptr, at);
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
  for (; tile.more(); tile.next()) {
    tile.wait();
    if constexpr (!B::whole) {
      backward_one_norm<form, layer, C>(p, tile, gains, rows, inverse, sum);
    } else if constexpr (layer) {
      backward_all_layer<C>(p, tile, gains, rows, inverse, sum);
    } else {
      backward_all_rms<C>(p, tile, gains, rows, inverse, sum);
    }
  }
  rows.group_sync();
  write_columns<B, C>(sum, memory, lie, p.partial + static_cast<int64_t>(blockIdx.x) * (layer ? 6 : 3) * d, at);
#endif
}

}  // namespace siamese::kernels::tile
