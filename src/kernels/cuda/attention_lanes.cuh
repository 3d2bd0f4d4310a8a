// What a thread has of attention's tiles: rows and columns of the accumulators, operands in registers, and the angles
// by which rotary positions turned its pairs.
#pragma once

#include "kernels/cuda/attention_hopper.cuh"

namespace siamese::kernels::attention {

/// A thread's place in the accumulators of its warpgroup: rows `row` and row + 8, columns 8j + `column` and the next.
struct Lane {
  int lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;
  int row = warp * 16 + lane / 4, column = 2 * (lane % 4);

  /// Where it names its row of the 8×8 matrices of a warp's 16 rows and columns 8j … 8j + 15 in a swizzled tile.
  __device__ uint32_t matrix(uint32_t tile, int j) const {
    return tile + (warp * 16 + (lane & 15)) * 128 + (((j + (lane >> 4)) ^ (lane & 7)) << 4);
  }
  /// The same for columns 8j … 8j + 7 and those 32 further on.
  __device__ uint32_t matrix_pair(uint32_t tile, int j) const {
    return tile + (warp * 16 + (lane & 15)) * 128 + (((j + (lane >> 4) * 4) ^ (lane & 7)) << 4);
  }
};

/// 64 rows of a tile as the first operand of four products.
__device__ __forceinline__ void load_rows(uint32_t (&a)[16], uint32_t tile, const Lane& lane) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
    hopper::load_matrices(lane.matrix(tile, 2 * k), a[4 * k], a[4 * k + 1], a[4 * k + 2], a[4 * k + 3]);
}

/// Accumulators as the first operand of the next product: n / 16 times four registers.
template <int n>
__device__ __forceinline__ void pack_rows(uint32_t (&a)[n / 2], const float (&c)[n]) {
#pragma unroll
  for (int i = 0; i < n / 2; ++i) a[i] = hopper::pack(c[2 * i], c[2 * i + 1]);
}

/// The first operand's rows times a tile [n, 64] (its columns are k), or times a tile [16·steps, 64] (its rows are k).
template <int n>
__device__ __forceinline__ void times_transposed(float (&d)[n / 2], const uint32_t (&a)[16], uint32_t tile) {
  const uint64_t b = hopper::matrix_at(tile, 16, 1024);
#pragma unroll
  for (int k = 0; k < 4; ++k) hopper::product<false>(d, a + 4 * k, b + 2 * k, k);
}
template <int steps>
__device__ __forceinline__ void times(float (&d)[32], const uint32_t (&a)[4 * steps], uint32_t tile, bool add) {
  const uint64_t b = hopper::matrix_at(tile, 16, 1024);
#pragma unroll
  for (int k = 0; k < steps; ++k) hopper::product<true>(d, a + 4 * k, b + 128 * k, add || k > 0);
}

/// The accumulators of 64 rows × 64 columns, times a factor for either row of a thread, as bf16 into a swizzled tile.
__device__ __forceinline__ void store_rows(uint32_t tile, const float (&d)[32], const Lane& lane, float first,
                                           float second) {
#pragma unroll
  for (int j = 0; j < 8; j += 2)
    hopper::store_matrices(lane.matrix(tile, j), hopper::pack(d[4 * j] * first, d[4 * j + 1] * first),
                           hopper::pack(d[4 * j + 2] * second, d[4 * j + 3] * second),
                           hopper::pack(d[4 * j + 4] * first, d[4 * j + 5] * first),
                           hopper::pack(d[4 * j + 6] * second, d[4 * j + 7] * second));
}

/// Turns the pairs (i, i + 32) of columns 8j + lane.column and the next in the first or the second of a thread's rows
/// back, at = j + 4·row: [a·cos + b·sin, b·cos - a·sin]. `angles`: cos, cos, sin, sin.
__device__ __forceinline__ void turn_back(float (&d)[32], int at, float4 angles) {
  float *a = &d[4 * (at % 4) + 2 * (at / 4)], *b = a + 16;
  const float a0 = a[0], a1 = a[1];
  a[0] = a0 * angles.x + b[0] * angles.z, a[1] = a1 * angles.y + b[1] * angles.w;
  b[0] = b[0] * angles.x - a0 * angles.z, b[1] = b[1] * angles.y - a1 * angles.w;
}
/// The same of two pairs by themselves: the first ones, then their partners.
__device__ __forceinline__ float4 turned_back(float4 v, float4 angles) {
  return make_float4(v.x * angles.x + v.z * angles.z, v.y * angles.y + v.w * angles.w,
                     v.z * angles.x - v.x * angles.z, v.w * angles.y - v.y * angles.w);
}
__device__ __forceinline__ void turn_back(float (&d)[32], const float4 (&angles)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) turn_back(d, i, angles[i]);
}
/// Number `at` of a lane's angles among a warp's 16 rows from `row` on: zeros past the end.
__device__ __forceinline__ float4 angles_of(const float* cos, const float* sin, int length, int row, int lane, int at) {
  const int position = row + lane / 4 + at / 4 * 8, from = position * (kHead / 2) + 8 * (at % 4) + 2 * (lane % 4);
  if (position >= length) return make_float4(0.f, 0.f, 0.f, 0.f);
  const float2 c = *reinterpret_cast<const float2*>(cos + from), s = *reinterpret_cast<const float2*>(sin + from);
  return make_float4(c.x, c.y, s.x, s.y);
}
/// Angles from tables [length, 32]; none where there are no tables.
struct AngleTables {
  const float *cos, *sin;
  int length;

  __device__ bool on() const { return cos != nullptr; }
  __device__ void load(float4 (&angles)[8], const Lane& lane, int row) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) angles[i] = angles_of(cos, sin, length, row + 16 * lane.warp, lane.lane, i);
  }
};
/// The same in the order in which threads need them, [16 rows][at][lane], so that a warp reads whole lines.
struct OrderedAngles {
  const float4* all;

  static constexpr int kTile = 4 * 8 * 32;  // numbers of 64 rows
  __device__ static int index(int rows16, int at, int lane) { return (rows16 * 8 + at) * 32 + lane; }
  __device__ bool on() const { return all != nullptr; }
  __device__ float4 of(const Lane& lane, int row, int at) const {
    return all[index(row / 16 + lane.warp, at, lane.lane)];
  }
  __device__ void load(float4 (&angles)[8], const Lane& lane, int row) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) angles[i] = of(lane, row, i);
  }
};

}  // namespace siamese::kernels::attention
