// What the products of gemm_swiglu.h do with a finished tile of gemm_woven.cuh, 32 columns at a time.
#pragma once

#include "kernels/cuda/gemm_woven.cuh"
#include "kernels/cuda/swiglu.cuh"

namespace siamese::kernels {

/// Where a lane's rows of matrices lie in a box of 64 rows, 32 columns each, swizzled over 64 bytes.
struct WovenLane {
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;

  /// Of chunks j and j + 1 of eight columns.
  __device__ __forceinline__ uint32_t at(int j) const {
    return (warp * 16 + (lane & 15)) * 64 + (((j + (lane >> 4)) ^ (lane >> 1 & 3)) << 4);
  }
};

/// P and h: the first half of a tile's columns are values, the second half their gates. Each warpgroup stages its own,
/// swizzled over 64 bytes.
struct WovenForward : WovenEpilogue {
  static constexpr int kStages = 4, kBarriers = 0, kHalf = kTileN / 2;
  static constexpr int kColumns = 32, kParts = kHalf / kColumns;
  static constexpr uint32_t kRow = kColumns * 2, kBox = 64 * kRow;
  static constexpr uint32_t kBytes = 2 * 3 * kBox;
  static constexpr bool kColumnsFirst = false;
  struct Maps {
    CUtensorMap value, gate, h;
  };
  using Memory = PingpongMemory<WovenForward>;

  /// One block brings the values' rows of W, the other one the gates'.
  static __device__ void feed_b(const PingpongShape& s, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    hopper::load_box_to_all(b, to + rank * (kBytesB / 2), full, k, static_cast<int>(rank) * s.half + n * kHalf, 3);
  }

  static __device__ __forceinline__ void finish(int part, const uint32_t (&held)[kWovenHeld], const Ahead&,
                                                const PingpongTile& tile, const Maps& maps, const Memory& memory,
                                                int mine) {
    const WovenLane lane;
    const uint32_t value = memory.epilogue() + mine * (3 * kBox), gate = value + kBox, out = gate + kBox;
    const bool sends = threadIdx.x % kGroup == 0;
    if (sends) hopper::store_wait_read<0>();
    hopper::named_sync(1 + mine, kGroup);  // the last part has been read
#pragma unroll
    for (int j = 0; j < kColumns / 8; j += 2) {
      const uint32_t at = lane.at(j);
      const uint32_t *v = &held[2 * j], *g = v + kWovenHeld / 2;
      uint32_t h[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        h[i] = hopper::pack(swiglu<true>(hopper::low(v[i]), hopper::low(g[i])),
                            swiglu<true>(hopper::high(v[i]), hopper::high(g[i])));
      hopper::store_matrices(value + at, v[0], v[1], v[2], v[3]);
      hopper::store_matrices(gate + at, g[0], g[1], g[2], g[3]);
      hopper::store_matrices(out + at, h[0], h[1], h[2], h[3]);
    }
    hopper::fence_for_copies();
    hopper::named_sync(1 + mine, kGroup);
    if (!sends) return;
    const int first = tile.n * kHalf + part * kColumns, row = tile.row + mine * 64;
    hopper::store_box(maps.value, value, first, row);
    hopper::store_box(maps.gate, gate, first, row);
    hopper::store_box(maps.h, out, first, row);
    hopper::store_commit();
  }
};

/// g_P and h from g_h, rounded, and P, which a second feeding thread brings to one of each group's three slots; g_P
/// takes P's place there.
struct WovenBackward : WovenEpilogue {
  static constexpr int kStages = 3, kSlots = 3, kColumns = 32, kParts = kTileN / kColumns;
  static constexpr int kBarriers = 2 * 2 * kSlots;
  static constexpr uint32_t kRow = kColumns * 2, kBox = 64 * kRow, kSlot = 3 * kBox;
  static constexpr uint32_t kBytes = 2 * kSlots * kSlot;
  static constexpr bool kColumnsFirst = true;
  struct Maps {
    CUtensorMap value, gate, g_value, g_gate, h;
  };
  using Memory = PingpongMemory<WovenBackward>;

  /// The slot that comes next; `last`: the one before, -1 where nothing has been sent yet.
  struct Ahead {
    int slot = 0, last = -1;
    uint32_t phase = 0;
    __device__ void advance() {
      last = slot;
      if (++slot == kSlots) slot = 0, phase ^= 1;
    }
  };

  static __device__ uint32_t slot_at(const Memory& memory, int group, int slot) {
    return memory.epilogue() + (group * kSlots + slot) * kSlot;
  }
  static __device__ uint32_t filled(const Memory& memory, int group, int slot) {
    return memory.epilogue_barrier(group * kSlots + slot);
  }
  static __device__ uint32_t read(const Memory& memory, int group, int slot) {
    return memory.epilogue_barrier((2 + group) * kSlots + slot);
  }

  static __device__ void feed_b(const PingpongShape&, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    feed_columns_first(b, to, full, n, k, rank);
  }
  static __device__ void feed(const WovenShape& s, uint32_t rank, const Maps& maps, const Memory& memory) {
    Ahead next;
    for (WovenWork work(s, kParts); work.more(); work.next()) {
      if (work.begin > 0) continue;  // another cluster finishes the tile
      const PingpongTile tile(s, rank, work.tile);
      for (int part = 0; part < kParts; ++part, next.advance())
        for (int group = 0; group < 2; ++group) {
          const uint32_t to = slot_at(memory, group, next.slot), full = filled(memory, group, next.slot);
          const int column = tile.n * kTileN + part * kColumns, row = tile.row + group * 64;
          hopper::barrier_wait(read(memory, group, next.slot), next.phase ^ 1);
          hopper::barrier_expect(full, 2 * kBox);
          hopper::load_box(maps.value, to, full, column, row);
          hopper::load_box(maps.gate, to + kBox, full, column, row);
        }
    }
  }

  static __device__ __forceinline__ void finish(int part, const uint32_t (&held)[kWovenHeld], Ahead& next,
                                                const PingpongTile& tile, const Maps& maps, const Memory& memory,
                                                int mine) {
    const WovenLane lane;
    const uint32_t value = slot_at(memory, mine, next.slot), gate = value + kBox, out = gate + kBox;
    const bool sends = threadIdx.x % kGroup == 0;
    if (sends && next.last >= 0) {  // by now it has left
      hopper::store_wait_read<0>();
      hopper::barrier_arrive(read(memory, mine, next.last));
    }
    hopper::barrier_wait(filled(memory, mine, next.slot), next.phase);
#pragma unroll
    for (int j = 0; j < kColumns / 8; j += 2) {
      const uint32_t at = lane.at(j);
      const uint32_t* g_h = &held[2 * j];
      uint32_t v[4], g[4], h[4];
      hopper::load_matrices(value + at, v[0], v[1], v[2], v[3]);
      hopper::load_matrices(gate + at, g[0], g[1], g[2], g[3]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float v0 = hopper::low(v[i]), v1 = hopper::high(v[i]), g0 = hopper::low(g[i]), g1 = hopper::high(g[i]);
        const float h0 = swiglu_backward<true>(v0, g0, hopper::low(g_h[i]));
        const float h1 = swiglu_backward<true>(v1, g1, hopper::high(g_h[i]));
        v[i] = hopper::pack(v0, v1), g[i] = hopper::pack(g0, g1), h[i] = hopper::pack(h0, h1);
      }
      hopper::store_matrices(value + at, v[0], v[1], v[2], v[3]);
      hopper::store_matrices(gate + at, g[0], g[1], g[2], g[3]);
      hopper::store_matrices(out + at, h[0], h[1], h[2], h[3]);
    }
    hopper::fence_for_copies();
    hopper::named_sync(1 + mine, kGroup);
    if (sends) {
      const int first = tile.n * kTileN + part * kColumns, row = tile.row + mine * 64;
      hopper::store_box(maps.g_value, value, first, row);
      hopper::store_box(maps.g_gate, gate, first, row);
      hopper::store_box(maps.h, out, first, row);
      hopper::store_commit();
    }
    next.advance();
  }
};

}  // namespace siamese::kernels
