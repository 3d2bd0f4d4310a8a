// Shared by mhc's tensor-core kernels: a warp takes 8 tokens and 32 columns of all four streams; lane 4g + q has token
// g and the 8 columns from 8q on, as four words of two bf16.
#pragma once

#include "kernels/cuda/mhc.h"
#include "kernels/cuda/mma.cuh"

namespace siamese::kernels {

constexpr int kTileTokens = 8, kTileColumns = 32;

/// A thread's place in the tiles of column group `group`.
struct Tile {
  int lane, warp, token, quarter, group, column;
  bool exists;  // the group does
  __device__ Tile(int group_, int d)
      : lane(static_cast<int>(threadIdx.x) & 31),
        warp(static_cast<int>(threadIdx.x) / 32),
        token(lane / 4),
        quarter(lane % 4),
        group(group_),
        column(group_ * kTileColumns + 8 * quarter),
        exists(group_ * kTileColumns < d) {}
};

struct Words {
  uint32_t w[4];
};
__device__ __forceinline__ Words words(const uint4& v) { return {{v.x, v.y, v.z, v.w}}; }
__device__ __forceinline__ uint4 vector(const Words& v) { return make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]); }

/// The column that a word's place in an 8 x 8 operand stands for, where its index n runs over lanes: word w of the
/// lanes 4g + q has columns 8q + 2w and 8q + 2w + 1, index 2q and 2q + 1.
__device__ __forceinline__ int tile_column(int n, int w) { return 8 * (n / 2) + 2 * w + n % 2; }

/// γ_map φ at a row of n·d, column 0 … 23 of the products.
__device__ __forceinline__ float mhc_weight(const MhcParametersCuda& p, int64_t row, int column) {
  const int map = column < 4 ? 0 : column < 8 ? 1 : 2, width = map == 2 ? 16 : 4;
  const float gain = p.map_gain != nullptr ? to_float(static_cast<const bfloat*>(p.map_gain)[row]) : 1.f;
  const void* const phi = map == 0 ? p.phi[0] : map == 1 ? p.phi[1] : p.phi[2];
  return gain * to_float(static_cast<const bfloat*>(phi)[row * width + column - (map == 2 ? 8 : 4 * map)]);
}

}  // namespace siamese::kernels
