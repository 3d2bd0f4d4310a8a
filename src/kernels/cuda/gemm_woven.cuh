// A matrix product C = A·B of bf16 on Hopper in tiles of 128 rows by 256 columns, whose epilogue is woven into the
// products of the next tile: two warpgroups have 64 rows each, round a finished tile to bf16, and take its parts
// through the epilogue one by one while the tensor cores work on what follows.
//
// Why so wide: shared memory gives 128 bytes a cycle. Over 64 columns of k, wgmma reads B once every 64 rows and A
// once, and the copy engine writes both: for a tile of 128 × 176 (gemm_pingpong.cuh) 784 cycles of shared memory beside
// 704 of the tensor cores, for one of 128 × 256 1024 beside 1024, before what the epilogues stage.
#pragma once

#include "kernels/cuda/hopper_product256.cuh"
#include "kernels/cuda/woven_work.cuh"

namespace siamese::kernels {

constexpr int kWovenColumns = 256, kWovenHeld = kWovenColumns / 4;  // of a tile; registers that hold it in bf16

/// Whether k has a step beside every part of the epilogue.
template <class Epilogue>
bool woven_serves(int64_t k) {
  return k / kDepth >= Epilogue::kParts;
}

/// What epilogues have in common unless they say otherwise: A's k runs fastest, a part takes eight of the registers, in
/// the order of the accumulators.
struct WovenEpilogue {
  static constexpr int kTileN = kWovenColumns, kPart = 8;
  static constexpr uint32_t kBytesB = kTileN * kDepth * 2;
  static constexpr bool kRowsFirst = false, kWoven = true;
  struct Ahead {};

  static constexpr __device__ int place(int i) { return i; }
  /// B of which n runs fastest: each block brings half of the columns, 64 at a time.
  static __device__ void feed_columns_first(const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                            uint32_t rank) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int box = 2 * static_cast<int>(rank) + i;
      hopper::load_box_to_all(b, to + box * (kBytesB / 4), full, n * kTileN + box * 64, k, 3);
    }
  }
  /// B of which k does: half of the rows of W.
  static __device__ void feed_k_first(const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k, uint32_t rank) {
    const int half = static_cast<int>(rank) * (kTileN / 2);
    hopper::load_box_to_all(b, to + rank * (kBytesB / 2), full, k, n * kTileN + half, 3);
  }
  template <class... Any>
  static __device__ void prepare(const Any&...) {}
  template <class... Any>
  static __device__ void feed(const Any&...) {}
  template <class... Any>
  static __device__ void fetch(const Any&...) {}
};

/// One thread: brings A and this block's half of B for every piece.
template <class Epilogue>
__device__ __forceinline__ void woven_feed(const WovenShape& s, uint32_t rank, const CUtensorMap& a,
                                           const CUtensorMap& b, const PingpongMemory<Epilogue>& memory) {
  int stage = 0;
  uint32_t phase = 0;
  for (WovenWork work(s, Epilogue::kParts); work.more(); work.next()) {
    const PingpongTile tile(s, rank, work.tile);
    for (int k = work.begin * kDepth; k < work.end * kDepth; k += kDepth) {
      const uint32_t full = memory.full(stage), to = memory.a(stage);
      hopper::barrier_wait(memory.empty(stage), phase ^ 1);
      hopper::barrier_expect(full, PingpongMemory<Epilogue>::kStage);
      if constexpr (Epilogue::kRowsFirst) {
        hopper::load_box(a, to, full, tile.row, k);
        hopper::load_box(a, to + kBytesA / 2, full, tile.row + 64, k);
      } else {
        hopper::load_box(a, to, full, k, tile.row);
      }
      Epilogue::feed_b(s, b, memory.b(stage), full, tile.n, k, rank);
      if (++stage == Epilogue::kStages) stage = 0, phase ^= 1;
    }
  }
}

/// Of a warpgroup: where it is in the ring, whose stages it has read.
template <class Epilogue>
struct WovenSteps {
  const PingpongMemory<Epilogue>& memory;
  int mine;
  uint32_t empty;
  int stage = 0, before = 0;
  uint32_t phase = 0;

  /// Two threads tell the two blocks, which both write here.
  __device__ __forceinline__ WovenSteps(const PingpongMemory<Epilogue>& memory_, int mine_)
      : memory(memory_), mine(mine_), empty(hopper::address_in(memory_.empty(0), threadIdx.x & 1)) {}
  __device__ __forceinline__ void release(int which) const {
    if (threadIdx.x % kGroup < 2) hopper::barrier_arrive_in_cluster(empty + which * 8);
  }
  /// Products of a piece's k-th step get under way.
  __device__ __forceinline__ void begin(float (&c)[kWovenColumns / 2], int k) const {
    constexpr bool kColumnsFirst = Epilogue::kColumnsFirst, kRowsFirst = Epilogue::kRowsFirst;
    hopper::barrier_wait(memory.full(stage), phase);
    const uint64_t a = hopper::matrix_at(memory.a(stage) + mine * (kBytesA / 2), 16, 1024);
    const uint64_t b = hopper::matrix_at(memory.b(stage), kColumnsFirst ? kDepth * 128 : 16, 1024);
    hopper::products_begin();
#pragma unroll
    for (int i = 0; i < kDepth / 16; ++i)
      hopper::product256<kRowsFirst, kColumnsFirst>(c, a + i * (kRowsFirst ? 128 : 2),
                                                    b + i * (kColumnsFirst ? 128 : 2), k + i);
    hopper::products_commit();
  }
  /// Those of the step before have ended.
  __device__ __forceinline__ void settle(int k) {
    hopper::products_wait<1>();
    if (k > 0) release(before);
    before = stage;
    if (++stage == Epilogue::kStages) stage = 0, phase ^= 1;
  }
  __device__ __forceinline__ void settle_last() const {
    hopper::products_wait<0>();
    release(before);
  }
};

/// The next part's numbers come to the first registers: parts need no code of their own each.
template <int part>
__device__ __forceinline__ void move_up(uint32_t (&held)[kWovenHeld]) {
#pragma unroll
  for (int i = 0; i + part < kWovenHeld; ++i) held[i] = held[i + part];
}

/// All pieces of a warpgroup. Named barriers: 1, 2 the group itself, 3 the second group's start. An epilogue may fetch
/// what a part needs ahead, in registers.
template <class Epilogue>
__device__ __forceinline__ void weave(const WovenShape& s, uint32_t rank, const typename Epilogue::Maps& maps,
                                      const PingpongMemory<Epilogue>& memory, int mine) {
  constexpr int kParts = Epilogue::kParts;
  WovenSteps<Epilogue> steps(memory, mine);
  const WovenSums sums{s, mine, 1 + mine};
  typename Epilogue::Ahead ahead;
  uint32_t held[kWovenHeld] = {};
  bool holds = false, started = false;
  PingpongTile last(s, rank, 0);
  const auto finish = [&](int part) {
    Epilogue::finish(part, held, ahead, last, maps, memory, mine);
    if (part + 1 < kParts) Epilogue::fetch(part + 1, ahead, last, maps, mine);
  };
#pragma unroll 1
  for (WovenWork work(s, kParts); work.more(); work.next()) {
    // The second group begins a step later and stays behind: while one rounds its tile, the other one's products run.
    if (!started && mine == 1) hopper::named_sync(3, 2 * kGroup);
    float c[kWovenColumns / 2];
    int k = 0;
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) {
      const int end = (part + 1) * (work.end - work.begin) / kParts;
      steps.begin(c, k);
      if (holds) {
        finish(part);
      } else if (!started && mine == 0) {
        hopper::named_arrive(3, 2 * kGroup);
      }
      started = true;
      move_up<Epilogue::kPart>(held);
      steps.settle(k);
#pragma unroll 1
      for (++k; k < end; ++k) {
        steps.begin(c, k);
        steps.settle(k);
      }
    }
    holds = work.begin == 0;
    if (holds) {
      last = PingpongTile(s, rank, work.tile);
      Epilogue::fetch(0, ahead, last, maps, mine);
    }
    steps.settle_last();
    if (!holds) {
      sums.give(c);
      continue;
    }
    if (work.end < s.depth_steps) sums.take(c, work);
#pragma unroll
    for (int i = 0; i < kWovenHeld; ++i) held[Epilogue::place(i)] = hopper::pack(c[2 * i], c[2 * i + 1]);
  }
#pragma unroll 1
  for (int part = 0; holds && part < kParts; ++part) {
    finish(part);
    move_up<Epilogue::kPart>(held);
  }
  if (threadIdx.x % kGroup == 0) hopper::store_wait_read<0>();  // also of a tile before the last piece
}

template <class Epilogue>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kPingpongThreads, 1)
    woven_kernel(const WovenShape s, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                 const __grid_constant__ typename Epilogue::Maps maps) {
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  const PingpongMemory<Epilogue> memory{hopper::shared_address(dynamic_bytes)};
  const int group = __shfl_sync(0xffffffffU, threadIdx.x / kGroup, 0);  // the same for a warp, as the compiler can see
  const uint32_t rank = cluster_rank();
  pingpong_prepare(memory, maps, a, b, 4);  // both groups, in either block
  if (group == 0) {
    hopper::leave_registers<40>();
    if (threadIdx.x == 0) woven_feed(s, rank, a, b, memory);
    if (threadIdx.x == 32) Epilogue::feed(s, rank, maps, memory);
    __syncwarp();
  } else {
    hopper::take_registers<232>();
    weave<Epilogue>(s, rank, maps, memory, group - 1);
  }
  cluster_barrier();  // no block leaves while the other one may still write to it
}

}  // namespace siamese::kernels
