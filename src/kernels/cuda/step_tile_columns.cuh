// Backward pass of the stream step by tiles: what the forms need, and the column sums of a block.
#pragma once

#include "kernels/cuda/step_tile_row.cuh"

namespace siamese::kernels::tile {

template <Form form, bool layer, bool sample>
struct Backward {
  static constexpr bool two = form != Form::pre, whole = form == Form::whole;
  static_assert(!sample || (layer && form != Form::mixed));
  enum Input { kY, kGz, kGy, kX = kGy + 1, kGx, kR = two ? kGx + 1 : kGy + 1, kInputs = kR + (sample ? 1 : 0) };
  // At the end of the stack nothing but z has a gradient; before the first sub-layer there is no r.
  static constexpr unsigned maybe = 1U << kGy | (two ? 1U << kGx : 0U) | (sample ? 1U << kR : 0U);
  // Vectors: {γ_x | c1}, γ_y, γ_in, what is added to u (β_x + β_y), β_in; then the gate (step_tile_forward.cuh)
  static constexpr int gain_a = 0, gain_y = two ? 1 : 0, gain_in = 2, bias_u = whole ? 3 : two ? 2 : 1, bias_in = 4;
  static constexpr int gate = (whole ? 3 : two ? 2 : 1) + (layer ? whole ? 2 : 1 : 0), gains = gate + (sample ? 1 : 0);
  static constexpr int numbers = (whole ? 3 : 1) * (layer ? 2 : 1);
  // Column sums; the gate's comes last. With samples the last norm has no gain of its own, and its sums are those of
  // scale and shift.
  static constexpr int of_gate = (whole ? 3 : two ? 2 : 1) + (layer ? whole ? 3 : 1 : 0);
  static constexpr int columns = of_gate + (sample ? 1 : 0);
  static constexpr int of_scale = whole ? kStepGainIn : 0, of_shift = whole ? kStepBiasIn : 1;
  static constexpr __host__ __device__ Needs needs() {
    return {kInputs, numbers, gains, whole ? 4 : layer ? 2 : 1, columns, sample ? 3 : 0};
  }
  /// Place of column sum c among those of StepColumn; -1: it belongs to a sample.
  static constexpr __host__ __device__ int column(int c) {
    if (sample && (c == of_scale || c == of_shift || c == of_gate)) return -1;
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
    if (B::column(c) < 0) continue;
    float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int g = 0; g < at.groups; ++g) {
      const float4 f =
          *reinterpret_cast<const float4*>(all + g * (lie.group / 4) + c * d + spread<C::Q>(four, at.threads));
      total.x += f.x, total.y += f.y, total.z += f.z, total.w += f.w;
    }
    *reinterpret_cast<float4*>(out + B::column(c) * d + four) = total;
  }
}

/// The sums of a part of a sample, the groups' in order, to out [3, d]; they begin again at 0. By all threads.
template <class B, class C>
__device__ __forceinline__ void write_sample(float (&sum)[B::columns][C::E], float* shared, float row_scale, float* out,
                                             const Place& at) {
  const int d = at.threads * C::E;
  constexpr int of[3] = {B::of_scale, B::of_shift, B::of_gate};  // as in StepSampleColumn
  for (int g = 0; g < at.groups; ++g) {
    if (at.group == g) {
#pragma unroll
      for (int c = 0; c < 3; ++c) {
#pragma unroll
        for (int h = 0; h < C::E / 4; ++h) {
          float4* to = reinterpret_cast<float4*>(shared + c * d + 4 * (h * at.threads + at.thread));
          float(&from)[C::E] = sum[of[c]];
          float4 f = g == 0 ? make_float4(0.f, 0.f, 0.f, 0.f) : *to;
          f.x += from[4 * h], f.y += from[4 * h + 1], f.z += from[4 * h + 2], f.w += from[4 * h + 3];
          *to = f;
          from[4 * h] = from[4 * h + 1] = from[4 * h + 2] = from[4 * h + 3] = 0.f;
        }
      }
    }
    __syncthreads();
  }
  for (int i = at.group * at.threads + at.thread; i < 3 * d / 4; i += at.groups * at.threads) {
    const int c = i / (d / 4), four = i % (d / 4) * 4;
    float4 f = *reinterpret_cast<const float4*>(shared + c * d + spread<C::Q>(four, at.threads));
    if (c == kStepGate) f.x *= row_scale, f.y *= row_scale, f.z *= row_scale, f.w *= row_scale;
    *reinterpret_cast<float4*>(out + c * d + four) = f;
  }
}

/// g_y' out of what came with a_next·g_X added.
template <int E>
__device__ __forceinline__ void take_apart(float (&g)[E], const float (&g_x)[E], float a_next) {
#pragma unroll
  for (int i = 0; i < E; ++i) g[i] -= a_next * g_x[i];
}

/// g_y becomes g_w = g_y + a·g_x̃; whichever of the two is wanted goes to memory.
template <class C, class T>
__device__ __forceinline__ void put_joined(const StepCuda& p, const T& tile, int r, float (&g)[C::E],
                                           const float (&g_x)[C::E]) {
  if (!p.joined) tile.put(p.g_y, r, g);
#pragma unroll
  for (int i = 0; i < C::E; ++i) g[i] += p.a * g_x[i];
  if (p.joined) tile.put(p.g_y, r, g);
}

/// From g_w, in fp32, to the gradient of r: times row scale and gate, whose sum is taken here.
template <class B, bool sample, class C, class T, class G>
__device__ __forceinline__ void put_update(const StepCuda& p, const T& tile, const G& gains, int r, float (&g)[C::E],
                                           const Words<C::E>& update, float (&sum)[B::columns][C::E]) {
  if (p.g_r == nullptr) return;
  if constexpr (sample) {
    float w[C::E];
    widen(w, update);
#pragma unroll
    for (int i = 0; i < C::E; ++i) sum[B::of_gate][i] += g[i] * w[i];
    times(g, gains, B::gate);
  } else {
    drop(p, tile, r, g);
  }
  tile.put(p.g_r, r, g);
}

}  // namespace siamese::kernels::tile
