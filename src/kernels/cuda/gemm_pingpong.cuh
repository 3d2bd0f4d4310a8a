// A matrix product C = A·B of bf16 on Hopper whose epilogue costs no time of the tensor cores. A persistent block has a
// warpgroup that feeds (the copy engine brings 64 columns of k at a time into a ring of buffers) and two that compute,
// each a tile of its own, 128 rows by the epilogue's number of columns, in turns: while one multiplies, the other one
// finishes its tile. Two blocks, a cluster, have the same columns: each brings half of B, to both.
#pragma once

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/hopper_product192.cuh"

namespace siamese::kernels {

constexpr int kGroup = 128, kPingpongThreads = 3 * kGroup;  // a warpgroup; the one that feeds and two that compute
constexpr int kTileM = 128, kDepth = 64;                    // rows of a tile; columns of k at a time
constexpr uint32_t kBytesA = kTileM * kDepth * 2;

struct PingpongShape {
  int pairs_m, tiles_n;  // a cluster takes two tiles, one below the other
  int depth_steps;       // k / 64
  int half;              // where the second half of B's rows begins, if an epilogue has one
};

/// A block's tile of the index-th pair, in the order in which clusters take them: four pairs of rows of tiles go
/// through all columns before the next four begin, so that what runs at a time reads few rows of A and few of B.
struct PingpongTile {
  int row, n;

  __device__ PingpongTile(const PingpongShape& s, uint32_t rank, int index) {
    constexpr int kRows = 4;
    const int first = index / (kRows * s.tiles_n) * kRows, rows = min(kRows, s.pairs_m - first);
    const int rest = index - first * s.tiles_n;
    n = rest / rows;
    row = (2 * (first + rest % rows) + static_cast<int>(rank)) * kTileM;
  }
};

/// Shared memory: the ring, then what the epilogue wants, then barriers.
template <class Epilogue>
struct PingpongMemory {
  static constexpr int kStages = Epilogue::kStages;
  static constexpr uint32_t kStage = kBytesA + Epilogue::kBytesB;
  static constexpr uint32_t kEpilogue = kStages * kStage, kBarriers = kEpilogue + Epilogue::kBytes;
  static constexpr uint32_t kBytes = kBarriers + 2 * kStages * 8 + Epilogue::kBarriers * 8;

  uint32_t base;
  __device__ uint32_t a(int stage) const { return base + stage * kStage; }
  __device__ uint32_t b(int stage) const { return base + stage * kStage + kBytesA; }
  __device__ uint32_t epilogue() const { return base + kEpilogue; }
  __device__ uint32_t full(int stage) const { return base + kBarriers + stage * 8; }
  __device__ uint32_t empty(int stage) const { return base + kBarriers + (kStages + stage) * 8; }
  __device__ uint32_t epilogue_barrier(int i) const { return base + kBarriers + (2 * kStages + i) * 8; }
};

/// By all threads, before any of them works; `readers`: groups that read a stage, in both blocks.
template <class Epilogue>
__device__ __forceinline__ void pingpong_prepare(const PingpongMemory<Epilogue>& memory,
                                                 const typename Epilogue::Maps& maps, const CUtensorMap& a,
                                                 const CUtensorMap& b, int readers) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < Epilogue::kStages; ++i) {
      hopper::barrier_init(memory.full(i), 1);
      hopper::barrier_init(memory.empty(i), readers);
    }
    for (int i = 0; i < Epilogue::kBarriers; ++i) hopper::barrier_init(memory.epilogue_barrier(i), 1);
    hopper::barrier_init_done();
    hopper::prefetch_map(a);
    hopper::prefetch_map(b);
  }
  Epilogue::prepare(maps, memory);
  cluster_barrier();
}

/// One thread: brings A and this block's half of B for every tile.
template <class Epilogue>
__device__ __forceinline__ void pingpong_feed(const PingpongShape& s, uint32_t rank, const CUtensorMap& a,
                                              const CUtensorMap& b, const PingpongMemory<Epilogue>& memory) {
  int stage = 0;
  uint32_t phase = 0;
  for (int t = blockIdx.x / 2; t < s.pairs_m * s.tiles_n; t += gridDim.x / 2) {
    const PingpongTile tile(s, rank, t);
    for (int k = 0; k < s.depth_steps * kDepth; k += kDepth) {
      const uint32_t full = memory.full(stage);
      hopper::barrier_wait(memory.empty(stage), phase ^ 1);
      hopper::barrier_expect(full, PingpongMemory<Epilogue>::kStage);
      hopper::load_box(a, memory.a(stage), full, k, tile.row);
      Epilogue::feed_b(s, b, memory.b(stage), full, tile.n, k, rank);
      if (++stage == Epilogue::kStages) stage = 0, phase ^= 1;
    }
  }
}

/// The products of one tile; `step` counts the depth steps of all tiles before. Hands the turn to `next_turn` once all
/// products are under way.
template <class Epilogue>
__device__ __forceinline__ void pingpong_multiply(float (&c)[2][Epilogue::kTileN / 2],
                                                  const PingpongMemory<Epilogue>& memory, int step, int steps,
                                                  int next_turn) {
  constexpr bool kColumnsFirst = Epilogue::kColumnsFirst;
  int stage = step % Epilogue::kStages, before = 0;
  uint32_t phase = (step / Epilogue::kStages) & 1;
  // Two threads tell the two blocks, which both write here.
  const uint32_t thread = threadIdx.x % kGroup, empty = hopper::address_in(memory.empty(0), thread & 1);
  auto release = [&](int which) {
    if (thread < 2) hopper::barrier_arrive_in_cluster(empty + which * 8);
  };
  for (int k = 0; k < steps; ++k) {
    hopper::barrier_wait(memory.full(stage), phase);
    const uint64_t a = hopper::matrix_at(memory.a(stage), 16, 1024);
    const uint64_t b = hopper::matrix_at(memory.b(stage), kColumnsFirst ? kDepth * 128 : 16, 1024);
    hopper::products_begin();
#pragma unroll
    for (int i = 0; i < kDepth / 16; ++i)
#pragma unroll
      for (int m = 0; m < 2; ++m)  // 16 of k: 32 bytes on where k runs fastest, 16 rows of 128 bytes on otherwise
        hopper::product<kColumnsFirst>(c[m], a + (m * kBytesA / 2 >> 4) + i * 2, b + i * (kColumnsFirst ? 128 : 2),
                                       k + i);
    hopper::products_commit();
    if (k + 1 == steps) hopper::named_arrive(next_turn, 2 * kGroup);
    hopper::products_wait<1>();
    if (k > 0) release(before);
    before = stage;
    if (++stage == Epilogue::kStages) stage = 0, phase ^= 1;
  }
  hopper::products_wait<0>();
  release(before);
}

template <class Epilogue>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kPingpongThreads, 1)
    pingpong_kernel(const PingpongShape s, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                    const __grid_constant__ typename Epilogue::Maps maps) {
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  const PingpongMemory<Epilogue> memory{hopper::shared_address(dynamic_bytes)};
  // The same for a warp, which the compiler sees only so: it then counts stages once a warp instead of once a lane.
  const int group = __shfl_sync(0xffffffffU, threadIdx.x / kGroup, 0);
  const uint32_t rank = cluster_rank();
  pingpong_prepare(memory, maps, a, b, 2);  // the group that computed, in either block
  const int tiles = s.pairs_m * s.tiles_n, first = blockIdx.x / 2, stride = gridDim.x / 2;
  if (group == 0) {
    hopper::leave_registers<40>();
    if (threadIdx.x == 0) pingpong_feed(s, rank, a, b, memory);
    if (threadIdx.x == 32) Epilogue::feed(s, rank, maps, memory);
    __syncwarp();
  } else {
    hopper::take_registers<232>();
    const int mine = group - 1;
    // Named barriers: 1, 2 the turn to multiply, 3, 4 the turn in the epilogue, 5, 6 the group itself. Turns also keep
    // each group's wait for a phase behind the other's wait for the one before.
    if (mine == 1) hopper::named_arrive(1, 2 * kGroup), hopper::named_arrive(3, 2 * kGroup);
    int number = mine;
    for (int t = first + mine * stride; t < tiles; t += 2 * stride, number += 2) {
      float c[2][Epilogue::kTileN / 2];
      // Products read c even where they do not add to it: without this its registers are never free for an epilogue.
      if constexpr (Epilogue::kNeedsRegisters) {
#pragma unroll
        for (int i = 0; i < Epilogue::kTileN; ++i) c[i % 2][i / 2] = 0.f;
      }
      hopper::named_sync(1 + mine, 2 * kGroup);
      pingpong_multiply(c, memory, number * s.depth_steps, s.depth_steps, 2 - mine);
      Epilogue::finish(c, PingpongTile(s, rank, t), maps, memory, number, mine);
    }
  }
  cluster_barrier();  // no block leaves while the other one may still write to it
}

}  // namespace siamese::kernels
