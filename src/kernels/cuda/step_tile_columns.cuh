// Backward pass of the stream step by tiles: what the forms need, and the column sums of a block.
#pragma once

#include "kernels/cuda/step_tile_row.cuh"

namespace siamese::kernels::tile {

template <Form form, bool layer>
struct Backward {
  static constexpr bool two = form != Form::pre, whole = form == Form::whole;
  enum Input { kY, kGz, kGy, kX, kGx, kInputs = two ? 5 : 3 };
  // Vectors: {γ_x | c1}, γ_y, γ_in, what is added to u (β_x + β_y), β_in
  static constexpr int gain_a = 0, gain_y = two ? 1 : 0, gain_in = 2, bias_u = whole ? 3 : two ? 2 : 1, bias_in = 4;
  static constexpr int gains = (whole ? 3 : two ? 2 : 1) + (layer ? whole ? 2 : 1 : 0);
  static constexpr int numbers = (whole ? 3 : 1) * (layer ? 2 : 1);
  static constexpr int columns = (whole ? 3 : two ? 2 : 1) + (layer ? whole ? 3 : 1 : 0);
  static constexpr __host__ __device__ Needs needs() {
    return {kInputs, numbers, gains, whole ? 4 : layer ? 2 : 1, columns};
  }
  /// Place of column sum c among those of StepColumn.
  static constexpr __host__ __device__ int column(int c) {
    return whole    ? c
           : two    ? (c == 0   ? kStepGainA
                       : c == 1 ? kStepGainY
                                : kStepBiasY)
           : c == 0 ? kStepGainY
                    : kStepBiasY;
  }
};

/// The block's column sums, its groups' in order. All tiles are read: the sums take their place in shared memory.
template <class B, class C>
__device__ __forceinline__ void write_columns(const float (&sum)[B::columns][C::E], char* memory, const Layout& lie,
                                              float* out, const Place& at) {
  const int d = at.threads * C::E;
  float* mine = reinterpret_cast<float*>(memory + lie.ring + at.group * lie.group) + 4 * at.thread;
#pragma unroll
  for (int c = 0; c < B::columns; ++c) {
#pragma unroll
    for (int h = 0; h < C::E / 4; ++h)
      *reinterpret_cast<float4*>(mine + c * d + 4 * h * at.threads) =
          make_float4(sum[c][4 * h], sum[c][4 * h + 1], sum[c][4 * h + 2], sum[c][4 * h + 3]);
  }
  __syncthreads();
  const float* all = reinterpret_cast<const float*>(memory + lie.ring);
  for (int i = at.group * at.threads + at.thread; i < B::columns * d / 4; i += at.groups * at.threads) {
    const int c = i / (d / 4), four = i % (d / 4) * 4;
    float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int g = 0; g < at.groups; ++g) {
      const float4 f =
          *reinterpret_cast<const float4*>(all + g * (lie.group / 4) + c * d + spread<C::Q>(four, at.threads));
      total.x += f.x, total.y += f.y, total.z += f.z, total.w += f.w;
    }
    *reinterpret_cast<float4*>(out + B::column(c) * d + four) = total;
  }
}

}  // namespace siamese::kernels::tile
