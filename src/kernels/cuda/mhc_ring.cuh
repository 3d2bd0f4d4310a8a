// mhc's forward step, but for Sinkhorn, in one pass: roles, ring and memory. A cluster of d/128 blocks, one a
// multiprocessor, stays until all tokens are done and takes 8 tokens (a tile) at a time; a block has 128 columns of
// their rows. Its warps have roles that meet only at barriers in shared memory, so that the tiles of a ring are in
// different states at once:
//
//   ask    2 warps: a tile's rows and maps (cp.async), as far ahead as the ring is long
//   mix    2 teams of 4 warps, a tile each, 32 columns a warp: H' = A H + B ⊗ r, over H in the ring; the sums over
//          the row
//   send   1 warp: the block's sums to block (tile mod ranks)
//   weigh  1 warp, there: adds the blocks' sums up, makes a and ρ of them and sends those to all blocks
//   read   4 warps, 2 tokens each: H' and z = γ ρ Σ a_i H'_i from the ring to memory; then the place is free again
//
// Sinkhorn is a kernel of its own after this one (mhc_maps_cuda, 8 µs): its 40 divisions, each waiting for the one
// before, kept its warp busy for 10 k cycles a tile and everybody else waiting for it.
//
// Why nothing is overwritten too early: a block's sums of tile i + S (S places in the ring) are sent after its `read`
// of tile i, which waited for a and ρ of tile i. So `weigh` may use two places in turn as long as S <= 2 ranks.
#pragma once

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/mhc_read.cuh"
#include "kernels/cuda/mhc_send.cuh"

namespace siamese::kernels::ring {

constexpr int kBlockColumns = 128, kMostRanks = 8, kMostStages = 12;
constexpr int kTeams = 2, kTeamWarps = 4, kReadWarps = 4, kAskWarps = 2;
constexpr int kThreads = 32 * (kTeams * kTeamWarps + kReadWarps + kAskWarps + 2);
static_assert(kThreads == 512, "more warps would leave `mix` fewer registers than it needs");

// Where row k (H, r) of token t lies in a tile. Apart from whole 128 bytes rows lie 16 bytes apart, tokens t and t + 4
// 16, tokens t and t + 1 32: no two lanes meet in a bank where a half warp reads 8 bytes a lane of four tokens.
constexpr int kRows = 5, kRowBytes = 2 * kBlockColumns, kRowStride = kRowBytes + 16;
constexpr int kTokenStride = (kRows * kRowStride + 111) / 128 * 128 + 16;
__device__ __forceinline__ constexpr int row_at(int k, int t) {
  return (2 * (t & 3) + (t >> 2)) * kTokenStride + k * kRowStride;
}
constexpr int kRowsBytes = (kTileTokens * kTokenStride + 127) / 128 * 128;
constexpr int kStageBytes = kRowsBytes + kTileTokens * kMaps * 4;
static_assert(kStageBytes % 128 == 0);

constexpr int kRecord = 4;  // what `read` needs of a token: ρ a
constexpr int kPlaces = 4;  // of sums between `mix` and `send`

struct Shared {
  uint64_t full[kMostStages], mixed[kMostStages], known[kMostStages], free[kMostStages];
  uint64_t inbox[2], summed[kPlaces], taken[kPlaces];
  float records[kMostStages][kTileTokens][kRecord];
  float parts[kPlaces][kTeamWarps][kTileTokens * kSums];  // sums over a warp's columns
  float arrived[2][kMostRanks][kTileTokens * kSums];      // over a block's, from all blocks
  float total[kTileTokens * kSums];                       // over the row
};
constexpr int kRing = (static_cast<int>(sizeof(Shared)) + 127) / 128 * 128;
inline int bytes(int stages) { return kRing + stages * kStageBytes; }

// Barriers in shared memory by reference.
__device__ __forceinline__ uint32_t address(const uint64_t& barrier) { return hopper::shared_address(&barrier); }
__device__ __forceinline__ void wait(const uint64_t& barrier, unsigned phase) {
  hopper::barrier_wait(address(barrier), phase);
}
/// By a warp, after all its lanes have done what is announced.
__device__ __forceinline__ void arrive(const uint64_t& barrier, int lane) {
  __syncwarp();
  if (lane == 0) hopper::barrier_arrive(address(barrier));
}

/// Where in a ring, and in which phase its barriers are.
struct Turn {
  int stage = 0;
  unsigned phase = 0;
  /// `by` at most as many as there are.
  __device__ __forceinline__ void next(int stages, int by = 1) {
    stage += by;
    if (stage >= stages) stage -= stages, phase ^= 1;
  }
};

/// A warp's place in block and cluster. The cluster's tiles: first, first + step, … < tiles. In the tensor cores'
/// operands a lane has token g, and of every 16 columns those from 4q on.
struct Place {
  const MhcForwardCuda& p;
  Shared& s;
  char* memory;
  int stages, ranks, rank, first, step, tiles, warp, lane, g, q;
  __device__ Place(const MhcForwardCuda& call, char* memory_, int stages_)
      : p(call),
        s(*reinterpret_cast<Shared*>(memory_)),
        memory(memory_ + kRing),
        stages(stages_),
        ranks(call.sizes.d / kBlockColumns),
        rank(static_cast<int>(cluster_rank())),
        first(static_cast<int>(blockIdx.x) / ranks),
        step(static_cast<int>(gridDim.x) / ranks),
        tiles(static_cast<int>(call.sizes.tokens / kTileTokens)),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        g(lane / 4),
        q(lane % 4) {}
  __device__ __forceinline__ char* stage(int i) const { return memory + i * kStageBytes; }
  /// A [to][from], then B of token t.
  __device__ __forceinline__ float* before(int i, int t) const {
    return reinterpret_cast<float*>(stage(i) + kRowsBytes) + t * kMaps;
  }
};

}  // namespace siamese::kernels::ring
