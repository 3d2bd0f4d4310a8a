// Attention's gradients through the norms of q, k and v, on the way out of attention_at_once.cuh. Attention has seen
// y = R(γ·x̂) of a head's row x, with x̂ = ρ·x, ρ = (mean(x²) + ε)^(-1/2), and R the rotary positions (none for v). With
// g the gradient of y and g' = Rᵀg:
//   g_x = ρ(γ·g' - mean(γ·g'·x̂)·x̂),   g_γ = Σ_rows g'·x̂
// What v was is told by y: x̂ = y/γ. x of q and k is fetched, as R mixes columns with other gains and y would not tell x
// where one of the two is small; `lean` kernels take x̂ = Rᵀy/γ of q and k too where gains are alike (R has to turn and
// nothing else then: cos² + sin² = 1). A gain of 0 counts as 2⁻⁶⁰ (head_gain), in the forward pass too.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention_lanes.cuh"
#include "kernels/cuda/head_gain.cuh"

namespace siamese::kernels::attention {

/// Gains of q, k, v; ρ [3·heads, batch·length]; where a block's sums of g_γ go, [blocks, 3, 64]; x of q and k.
struct HeadNorms {
  const bfloat* gain[3];
  const float* rho;
  float* partial;
  CUtensorMap q, k;
};

/// In shared memory: γ of q, k and v and 1/γ of v, then sums of g'·x̂ (where y tells x̂, γ times that) of every warp that
/// has some: of k and v of eight warps, of q of four; then two notes (attention_sums.cuh) and two barriers
/// (attention_at_once.cuh); where lean, 1/γ of q and k and whether y tells their x̂.
struct NormMemory {
  static constexpr uint32_t kGain = kHead * 4, kSumsAt = 4 * kGain;  // bytes
  static constexpr uint32_t kNotesAt = kSumsAt + 20 * kGain;
  static constexpr uint32_t kBarriersAt = kNotesAt + 16, kBytes = kBarriersAt + 16;
  static constexpr uint32_t kAlikeAt = kBytes + 2 * kGain, kLeanBytes = kAlikeAt + 16;

  uint32_t base;
  __device__ uint32_t barrier(int mine) const { return base + kBarriersAt + mine * 8; }
  __device__ uint32_t gains(int part) const { return base + part * kGain; }
  __device__ uint32_t inverse_gains(int part) const { return base + (part == 2 ? 3 * kGain : kBytes + part * kGain); }
  __device__ bool alike() const { return hopper::shared_float(base + kAlikeAt) != 0.f; }
  /// `warp`: of its warpgroup, `mine`: which one of the two that have k and v.
  __device__ uint32_t of_queries(int warp) const { return base + kSumsAt + (16 + warp) * kGain; }
  __device__ uint32_t of_keys(int mine, int warp) const { return base + kSumsAt + (4 * mine + warp) * kGain; }
  __device__ uint32_t of_values(int mine, int warp) const { return of_keys(mine, warp) + 8 * kGain; }

  /// By all threads, 192 or more, before they meet.
  template <bool lean>
  __device__ void fill(const HeadNorms& norms) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      if (thread / kHead != part) continue;
      const float gain = head_gain(norms.gain[part][thread % kHead]);
      hopper::put_shared(gains(part) + thread % kHead * 4, gain);
      if (lean || part == 2) hopper::put_shared(inverse_gains(part) + thread % kHead * 4, 1.f / gain);
    }
    if (lean && thread < 32) {
      const bool alike = gains_alike(norms.gain[0]) && gains_alike(norms.gain[1]);
      if (thread == 0) hopper::put_shared(base + kAlikeAt, alike ? 1.f : 0.f);
    }
    for (int i = thread; i < 20 * kHead; i += static_cast<int>(blockDim.x))
      hopper::put_shared(base + kSumsAt + i * 4, 0.f);
  }
  /// The sums of the block's warps become g_γ of the block; `thread` of 192 or more, once all warps are done. `told`:
  /// y told x̂ of q and k.
  __device__ void leave(const HeadNorms& norms, int thread, bool told) const {
    if (thread >= 3 * kHead) return;
    const int part = thread / kHead, column = thread % kHead, warps = part == 0 ? 4 : 8;
    const uint32_t from = part == 0 ? of_queries(0) : part == 1 ? of_keys(0, 0) : of_values(0, 0);
    float sum = 0.f;
    for (int i = 0; i < warps; ++i) sum += hopper::shared_float(from + i * kGain + column * 4);
    norms.partial[static_cast<int64_t>(blockIdx.x) * (3 * kHead) + thread] =
        told || part == 2 ? sum * hopper::shared_float(inverse_gains(part) + column * 4) : sum;
  }
};

/// Sums over a warp's rows, of which a lane has two, of the sixteen columns that it has of them: 8j + lane.column, the
/// next one, and those 32 further on, for j = 0 … 3. Lanes give away half of what they have until each has two columns.
struct ColumnsOfWarp {
  float sum[4];  // a column a j

  __device__ __forceinline__ void take(const float (&v)[4], int j, const Lane& lane) {
    const bool upper = (lane.lane & 16) != 0, odd = (lane.lane & 8) != 0;
    float a[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      a[i] = (upper ? v[2 + i] : v[i]) + __shfl_xor_sync(0xffffffffU, upper ? v[i] : v[2 + i], 16);
    sum[j] = (odd ? a[1] : a[0]) + __shfl_xor_sync(0xffffffffU, odd ? a[0] : a[1], 8);
  }
  /// To those in shared memory.
  __device__ __forceinline__ void add_to(uint32_t sums, const Lane& lane) const {
    const bool last = (lane.lane & 4) != 0;
    const int column = lane.column + ((lane.lane & 8) != 0 ? 1 : 0) + ((lane.lane & 16) != 0 ? 32 : 0);
    const uint32_t at = sums + ((last ? 16 : 0) + column) * 4;
    float all[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      all[i] = (last ? sum[2 + i] : sum[i]) + __shfl_xor_sync(0xffffffffU, last ? sum[i] : sum[2 + i], 4);
    const float before = hopper::shared_float(at), next = hopper::shared_float(at + 32);
    hopper::put_shared(at, before + all[0]);
    hopper::put_shared(at + 32, next + all[1]);
  }
};

/// Columns 8j + lane.column, the next one, and those 32 further on, in a thread's two rows.
struct Pairs {
  uint32_t low[2], high[2];

  __device__ float4 operator()(int r) const {
    return make_float4(hopper::low(low[r]), hopper::high(low[r]), hopper::low(high[r]), hopper::high(high[r]));
  }
};
/// Σ over a head's row, of which four lanes have a part; of a thread's two rows.
__device__ __forceinline__ void add_quad(float (&rows)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows[r] += __shfl_xor_sync(0xffffffffU, rows[r], 1);
    rows[r] += __shfl_xor_sync(0xffffffffU, rows[r], 2);
  }
}

/// A thread's rows of a head, chunk by chunk: from a tile.
struct Stored {
  uint32_t tile;
  const Lane& lane;

  __device__ Pairs operator()(int j) const {
    Pairs p;
    hopper::load_matrices(lane.matrix_pair(tile, j), p.low[0], p.low[1], p.high[0], p.high[1]);
    return p;
  }
};
/// The same as the first operand of products holds them.
struct Held {
  const uint32_t (&rows)[16];

  __device__ Pairs operator()(int j) const {
    return {{rows[2 * j], rows[2 * j + 1]}, {rows[2 * j + 8], rows[2 * j + 9]}};
  }
};

/// By which angles R turned a chunk of them: by none; by those held; by those that lie at `at` in their order.
struct Unturned {};
struct TurnedBy {
  const float4 (&angles)[8];

  __device__ float4 operator()(int j, int r) const { return angles[j + 4 * r]; }
};
struct TurnedByStored {
  uint32_t at;
  const Lane& lane;

  __device__ float4 operator()(int j, int r) const {
    return hopper::shared_float4(at + OrderedAngles::index(lane.warp, j + 4 * r, lane.lane) * 16);
  }
};

/// d: accumulators of g', scale·d is g'; becomes g_x = t - ρ²·mean(t·x)·x with t = ρ·γ·g'. x lies in a tile; `rho` of a
/// thread's two rows. Adds g'·x̂ to `sums`.
__device__ __forceinline__ void through_norm(float (&d)[32], const Stored& rows, const Lane& lane, float scale,
                                             float2 rho, uint32_t gains, uint32_t sums) {
  const float factor[2] = {rho.x * scale, rho.y * scale};
  float mean[2] = {0.f, 0.f};
  ColumnsOfWarp columns;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t at = gains + (8 * j + lane.column) * 4;
    const float2 gain[2] = {hopper::shared_float2(at), hopper::shared_float2(at + 128)};
    const Pairs pairs = rows(j);
    float column[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float *a = &d[4 * j + 2 * r], *b = a + 16;
      const float4 x = pairs(r);
      a[0] *= factor[r], a[1] *= factor[r], b[0] *= factor[r], b[1] *= factor[r];
      column[0] += a[0] * x.x, column[1] += a[1] * x.y, column[2] += b[0] * x.z, column[3] += b[1] * x.w;
      a[0] *= gain[0].x, a[1] *= gain[0].y, b[0] *= gain[1].x, b[1] *= gain[1].y;
      mean[r] += a[0] * x.x + a[1] * x.y + b[0] * x.z + b[1] * x.w;
    }
    columns.take(column, j, lane);
  }
  columns.add_to(sums, lane);
  add_quad(mean);
  const float share[2] = {mean[0] * rho.x * rho.x * (1.f / kHead), mean[1] * rho.y * rho.y * (1.f / kHead)};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const Pairs pairs = rows(j);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float *a = &d[4 * j + 2 * r], *b = a + 16;
      const float4 x = pairs(r);
      a[0] -= share[r] * x.x, a[1] -= share[r] * x.y, b[0] -= share[r] * x.z, b[1] -= share[r] * x.w;
    }
  }
}

/// The same where y tells x: d are accumulators of g, not turned back yet, rows(j) are of y, u = Rᵀy = γ·x̂. As R only
/// turns, Σ γ·g'·x̂ = Σ g'·u = Σ g·y, so that one more look at each turns both: g_x = ρ(γ·g' - mean(g·y)·u/γ). Adds g'·u
/// to `sums`: γ times what is wanted. `inverse`: 1/γ.
template <class Rows, class Turned>
__device__ __forceinline__ void through_norm_told(float (&d)[32], const Rows& rows, const Turned& turned,
                                                  const Lane& lane, float scale, float2 rho, uint32_t gains,
                                                  uint32_t inverse, uint32_t sums) {
  float mean[2] = {0.f, 0.f};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const Pairs pairs = rows(j);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float *a = &d[4 * j + 2 * r], *b = a + 16;
      const float4 y = pairs(r);
      mean[r] += a[0] * y.x + a[1] * y.y + b[0] * y.z + b[1] * y.w;
    }
  }
  add_quad(mean);
  __syncwarp();  // and below: lest the compiler looks so far ahead that registers do not suffice
  const float factor[2] = {rho.x * scale, rho.y * scale};
  const float share[2] = {mean[0] * factor[0] * (1.f / kHead), mean[1] * factor[1] * (1.f / kHead)};
  ColumnsOfWarp columns;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t at = (8 * j + lane.column) * 4;
    const float2 gain[2] = {hopper::shared_float2(gains + at), hopper::shared_float2(gains + at + 128)};
    const float2 over[2] = {hopper::shared_float2(inverse + at), hopper::shared_float2(inverse + at + 128)};
    const Pairs pairs = rows(j);
    float column[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float *a = &d[4 * j + 2 * r], *b = a + 16;
      float4 u = pairs(r);
      if constexpr (!std::is_same_v<Turned, Unturned>) {
        const float4 angles = turned(j, r);
        u = turned_back(u, angles);
        turn_back(d, j + 4 * r, angles);
      }
      const float f = factor[r], s = share[r];
      column[0] += a[0] * u.x, column[1] += a[1] * u.y, column[2] += b[0] * u.z, column[3] += b[1] * u.w;
      a[0] = f * gain[0].x * a[0] - s * over[0].x * u.x, a[1] = f * gain[0].y * a[1] - s * over[0].y * u.y;
      b[0] = f * gain[1].x * b[0] - s * over[1].x * u.z, b[1] = f * gain[1].y * b[1] - s * over[1].y * u.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) column[i] *= scale;
    columns.take(column, j, lane);
    __syncwarp();
  }
  columns.add_to(sums, lane);
}

}  // namespace siamese::kernels::attention
