// Attention's gradients through the norms of q, k and v, on the way out of attention_at_once.cuh. Attention has seen
// y = R(γ·x̂) of a head's row x, with x̂ = ρ·x, ρ = (mean(x²) + ε)^(-1/2), and R the rotary positions (none for v). With
// g the gradient of y and g' = Rᵀg:
//   g_x = ρ(γ·g' - mean(γ·g'·x̂)·x̂),   g_γ = Σ_rows g'·x̂
// x of q and k is fetched; what v was is told by y: x̂ = y/γ. (R mixes columns with other gains: of q and k, y would not
// tell x where one of the two gains is small.) A gain of 0 counts as 2⁻⁶⁰ (head_gain), in the forward pass too.
#pragma once

#include "kernels/cuda/attention_hopper.cuh"
#include "kernels/cuda/head_gain.cuh"

namespace siamese::kernels::attention {

/// Gains of q, k, v; ρ [3·heads, batch·length]; where a block's sums of g_γ go, [blocks, 3, 64]; x of q and k.
struct HeadNorms {
  const bfloat* gain[3];
  const float* rho;
  float* partial;
  CUtensorMap q, k;
};

/// In shared memory: γ and 1/γ of q, k and v, then sums of d'·x̂ of every warp that has some: of k and v of eight
/// warps, of q of four; then two notes (attention_sums.cuh) and two barriers (attention_at_once.cuh).
struct NormMemory {
  static constexpr uint32_t kGain = kHead * 4, kGains = 2 * kGain, kSumsAt = 3 * kGains;  // bytes
  static constexpr uint32_t kNotesAt = kSumsAt + 20 * kGain;
  static constexpr uint32_t kBarriersAt = kNotesAt + 16, kBytes = kBarriersAt + 16;

  uint32_t base;
  __device__ uint32_t barrier(int mine) const { return base + kBarriersAt + mine * 8; }
  __device__ uint32_t gains(int part) const { return base + part * kGains; }
  /// `warp`: of its warpgroup, `mine`: which one of the two that have k and v.
  __device__ uint32_t of_queries(int warp) const { return base + kSumsAt + (16 + warp) * kGain; }
  __device__ uint32_t of_keys(int mine, int warp) const { return base + kSumsAt + (4 * mine + warp) * kGain; }
  __device__ uint32_t of_values(int mine, int warp) const { return of_keys(mine, warp) + 8 * kGain; }

  /// By all threads, 192 or more, before they meet.
  __device__ void fill(const HeadNorms& norms) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      if (thread / kHead != part) continue;
      const float gain = head_gain(norms.gain[part][thread % kHead]);
      hopper::put_shared(gains(part) + thread % kHead * 4, gain);
      hopper::put_shared(gains(part) + kGain + thread % kHead * 4, 1.f / gain);
    }
    for (int i = thread; i < 20 * kHead; i += static_cast<int>(blockDim.x))
      hopper::put_shared(base + kSumsAt + i * 4, 0.f);
  }
  /// Σ d'·x̂ of the block's warps becomes g_γ of the block; `thread` of 192 or more, once all warps are done.
  __device__ void leave(const HeadNorms& norms, float scale, int thread) const {
    if (thread >= 3 * kHead) return;
    const int part = thread / kHead, column = thread % kHead, warps = part == 0 ? 4 : 8;
    const uint32_t from = part == 0 ? of_queries(0) : part == 1 ? of_keys(0, 0) : of_values(0, 0);
    float sum = 0.f;
    for (int i = 0; i < warps; ++i) sum += hopper::shared_float(from + i * kGain + column * 4);
    norms.partial[static_cast<int64_t>(blockIdx.x) * (3 * kHead) + thread] = part == 2 ? sum : sum * scale;
  }
};

/// Adds the sums over a warp's rows of four columns that a lane has two rows of, 8j + lane.column, the next one, and
/// those 32 further on, to `sums`: lanes give away half of what they have until each has one column.
__device__ __forceinline__ void add_columns(const float (&v)[4], int j, const Lane& lane, uint32_t sums) {
  const bool upper = (lane.lane & 16) != 0, odd = (lane.lane & 8) != 0;
  float a[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    a[i] = (upper ? v[2 + i] : v[i]) + __shfl_xor_sync(0xffffffffU, upper ? v[i] : v[2 + i], 16);
  float b = (odd ? a[1] : a[0]) + __shfl_xor_sync(0xffffffffU, odd ? a[0] : a[1], 8);
  b += __shfl_xor_sync(0xffffffffU, b, 4);
  const uint32_t at = sums + (8 * j + lane.column + (odd ? 1 : 0) + (upper ? 32 : 0)) * 4;
  if ((lane.lane & 4) == 0) hopper::put_shared(at, hopper::shared_float(at) + b);
}

/// Columns 8j + lane.column, the next one, and those 32 further on, in a thread's two rows.
struct Pairs {
  uint32_t low[2], high[2];

  __device__ float4 operator()(int r) const {
    return make_float4(hopper::low(low[r]), hopper::high(low[r]), hopper::low(high[r]), hopper::high(high[r]));
  }
};
/// x̂ of rows x in a tile.
struct FromTile {
  uint32_t tile;
  float2 rho;

  __device__ Pairs load(const Lane& lane, int j) const {
    Pairs p;
    hopper::load_matrices(lane.matrix_pair(tile, j), p.low[0], p.low[1], p.high[0], p.high[1]);
    return p;
  }
  __device__ float4 operator()(const Pairs& x, int r, const float2 (&)[2]) const {
    const float4 v = x(r);
    const float f = r == 0 ? rho.x : rho.y;
    return make_float4(v.x * f, v.y * f, v.z * f, v.w * f);
  }
};
/// x̂ of normed rows y that are held as the first operand of products.
struct FromNormed {
  const uint32_t (&y)[16];

  __device__ Pairs load(const Lane&, int j) const { return {{y[2 * j], y[2 * j + 1]}, {y[2 * j + 8], y[2 * j + 9]}}; }
  __device__ float4 operator()(const Pairs& held, int r, const float2 (&over)[2]) const {
    const float4 v = held(r);
    return make_float4(v.x * over[0].x, v.y * over[0].y, v.z * over[1].x, v.w * over[1].y);
  }
};

/// d: accumulators of g', scale·d is g'; becomes g_x. `rho` of a thread's two rows, `normal` gives x̂.
template <class Normal>
__device__ __forceinline__ void through_norm(float (&d)[32], const Normal& normal, const Lane& lane, float scale,
                                             float2 rho, uint32_t gains, uint32_t sums) {
  float mean[2] = {0.f, 0.f};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t at = gains + (8 * j + lane.column) * 4;
    const float2 gain[2] = {hopper::shared_float2(at), hopper::shared_float2(at + 128)};
    const float2 over[2] = {hopper::shared_float2(at + 256), hopper::shared_float2(at + 384)};
    const Pairs pairs = normal.load(lane, j);
    float column[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float *a = &d[4 * j + 2 * r], *b = a + 16;
      const float4 x = normal(pairs, r, over);
      column[0] += a[0] * x.x, column[1] += a[1] * x.y, column[2] += b[0] * x.z, column[3] += b[1] * x.w;
      a[0] *= gain[0].x, a[1] *= gain[0].y, b[0] *= gain[1].x, b[1] *= gain[1].y;
      mean[r] += a[0] * x.x + a[1] * x.y + b[0] * x.z + b[1] * x.w;
    }
    add_columns(column, j, lane, sums);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    mean[r] += __shfl_xor_sync(0xffffffffU, mean[r], 1);
    mean[r] += __shfl_xor_sync(0xffffffffU, mean[r], 2);
    mean[r] *= 1.f / kHead;
  }
  const float factor[2] = {rho.x * scale, rho.y * scale};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t at = gains + 256 + (8 * j + lane.column) * 4;
    const float2 over[2] = {hopper::shared_float2(at), hopper::shared_float2(at + 128)};
    const Pairs pairs = normal.load(lane, j);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float *a = &d[4 * j + 2 * r], *b = a + 16;
      const float4 x = normal(pairs, r, over);
      a[0] = factor[r] * (a[0] - mean[r] * x.x), a[1] = factor[r] * (a[1] - mean[r] * x.y);
      b[0] = factor[r] * (b[0] - mean[r] * x.z), b[1] = factor[r] * (b[1] - mean[r] * x.w);
    }
  }
}

}  // namespace siamese::kernels::attention
