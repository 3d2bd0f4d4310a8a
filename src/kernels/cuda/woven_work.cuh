// How the clusters of a woven product (gemm_woven.cuh) share its tiles. Whole ones are dealt out in turns. What does
// not make a whole turn is one long row of steps of k, which is cut into as many parts as there are clusters: a cluster
// may begin and end within a tile. Whoever has a tile's first steps adds what the others, the next ones in the row,
// have summed up of it, in that order; these have it at the beginning of their parts, so that nobody waits long.
#pragma once

#include "kernels/cuda/gemm_pingpong.cuh"
#include "kernels/cuda/hopper_rows.cuh"

namespace siamese::kernels {

/// partial: [blocks, 2 groups, 64 · 256] for sums, told: [blocks, 2] zeros, which are zeros again in the end; null:
/// whole tiles alone.
struct WovenShape : PingpongShape {
  float* partial;
  int* told;
};

/// A cluster's work, piece by piece: steps [begin, end) of a tile. No piece has fewer than `shortest`; a tile has as
/// many or more.
struct WovenWork {
  const WovenShape& s;
  const int shortest, clusters = gridDim.x / 2, mine = blockIdx.x / 2, part = clusters - 1 - mine;
  const int tiles = s.pairs_m * s.tiles_n, whole = s.partial == nullptr ? tiles : tiles - tiles % clusters;
  int tile = mine, begin = 0, end = s.depth_steps, place = 0;

  __device__ WovenWork(const WovenShape& shape, int fewest) : s(shape), shortest(fewest) {
    if (tile >= whole) share(border(part));
  }
  __device__ bool more() const { return tile < tiles; }
  __device__ void next() {
    if (tile < whole) {
      tile += clusters;
      if (tile >= whole) share(border(part));
    } else {
      share(place + end - begin);
    }
  }
  /// The piece from step `at` of the row on.
  __device__ void share(int at) {
    place = at;
    const int left = border(part + 1) - at;
    if (left <= 0) {
      tile = tiles;
      return;
    }
    tile = whole + at / s.depth_steps;
    begin = at % s.depth_steps;
    end = min(s.depth_steps, begin + left);
  }
  /// Where part i of the row begins: not so near to the next one or to a tile's ends that a piece would be too short.
  __device__ int border(int i) const {
    const int64_t row = static_cast<int64_t>(tiles - whole) * s.depth_steps;
    const int parts = static_cast<int>(row / shortest < clusters ? row / shortest : clusters);
    if (parts == 0) return 0;  // nothing is left to share
    const int at = static_cast<int>(row * min(i, parts) / parts), rest = at % s.depth_steps;
    return at - rest + (rest < shortest ? 0 : rest > s.depth_steps - shortest ? s.depth_steps : rest);
  }
};

/// The sums of a warpgroup, 64 rows of a tile, on their way to the cluster that has the tile's first steps.
struct WovenSums {
  const WovenShape& s;
  int mine, barrier;  // which warpgroup, its named barrier
  int thread = threadIdx.x % kGroup;

  __device__ float4* at(int block) const {
    return reinterpret_cast<float4*>(s.partial) + static_cast<int64_t>(2 * block + mine) * (64 * 256 / 4) + thread;
  }
  __device__ __forceinline__ void give(const float (&c)[128]) const {
    float4* to = at(blockIdx.x);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      __stcg(to + i * kGroup, make_float4(c[4 * i], c[4 * i + 1], c[4 * i + 2], c[4 * i + 3]));
    hopper::named_sync(barrier, kGroup);
    if (thread == 0) hopper::write_release(s.told + 2 * blockIdx.x + mine, 1);
  }
  /// Of a tile whose steps up to `work.end` are in c.
  __device__ __forceinline__ void take(float (&c)[128], const WovenWork& work) const {
    const int tile_end = (work.tile - work.whole + 1) * s.depth_steps;  // borders within a tile are all different
    for (int i = work.part + 1; work.border(i) < tile_end; ++i) {
      const int block = 2 * (work.clusters - 1 - i) + static_cast<int>(blockIdx.x % 2);
      if (thread == 0) {
        int* told = s.told + 2 * block + mine;
        while (hopper::read_acquire(told) == 0) {
        }
        *told = 0;
      }
      hopper::named_sync(barrier, kGroup);
      const float4* from = at(block);
#pragma unroll
      for (int j = 0; j < 32; ++j) {
        const float4 f = __ldcg(from + j * kGroup);
        c[4 * j] += f.x, c[4 * j + 1] += f.y, c[4 * j + 2] += f.z, c[4 * j + 3] += f.w;
      }
    }
  }
};

}  // namespace siamese::kernels
