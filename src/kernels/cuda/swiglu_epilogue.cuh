// What the products of gemm_swiglu.h do with a finished tile. Shared memory is read and written in 8×8 matrices, as the
// accumulators of wgmma lie in registers; a lane names one row of each.
#pragma once

#include "kernels/cuda/gemm_pingpong.cuh"
#include "kernels/cuda/swiglu.cuh"

namespace siamese::kernels {

/// P and h from the accumulators: the first half of a tile's columns are values, the second half their gates. A
/// warpgroup stages 64 rows at a time. 176 bytes, an odd number of times 16, lie between rows of half a tile, so that
/// the eight rows of a matrix lie in different banks.
struct ForwardEpilogue {
  static constexpr int kTileN = 176, kStages = 5, kBarriers = 0, kHalf = kTileN / 2, kChunks = kHalf / 8;
  static constexpr int kColumns = kHalf;
  static constexpr uint32_t kRow = kHalf * 2, kPart = 64 * kRow;
  static constexpr uint32_t kBytesB = kTileN * kDepth * 2, kBytes = 3 * kPart;
  static constexpr bool kColumnsFirst = false, kNeedsRegisters = false, kWoven = false;
  struct Maps {
    CUtensorMap value, gate, h;
  };
  using Memory = PingpongMemory<ForwardEpilogue>;

  /// One block brings the values' rows of W, the other one the gates'.
  static __device__ void feed_b(const PingpongShape& s, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    hopper::load_box_to_all(b, to + rank * (kBytesB / 2), full, k, static_cast<int>(rank) * s.half + n * kHalf, 3);
  }
  static __device__ void prepare(const Maps&, const Memory&) {}
  static __device__ void feed(const PingpongShape&, uint32_t, const Maps&, const Memory&) {}

  static __device__ void store(uint32_t to, const uint32_t (&v)[4], int chunks) {
    chunks == 2 ? hopper::store_matrices(to, v[0], v[1], v[2], v[3]) : hopper::store_matrices(to, v[0], v[1]);
  }

  static __device__ __forceinline__ void finish(float (&c)[2][kTileN / 2], const PingpongTile& tile, const Maps& maps,
                                                const Memory& memory, int, int mine) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;
    const uint32_t offset = (warp * 16 + (lane & 15)) * kRow + (lane >> 4) * 16;
    const uint32_t value = memory.epilogue(), gate = value + kPart, out = gate + kPart;
    hopper::named_sync(3 + mine, 2 * kGroup);  // the other group's parts have been read
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      if (m == 1) hopper::named_sync(5 + mine, kGroup);  // the first rows have been read
#pragma unroll
      for (int j = 0; j < kChunks; j += 2) {  // chunks of 8 columns, two by two, the last one alone
        const int chunks = j + 1 < kChunks ? 2 : 1;
        uint32_t v[4], g[4], h[4];
#pragma unroll
        for (int i = 0; i < 2 * chunks; ++i) {
          const int at = 4 * j + 2 * i;
          v[i] = hopper::pack(c[m][at], c[m][at + 1]);
          g[i] = hopper::pack(c[m][at + kHalf / 2], c[m][at + kHalf / 2 + 1]);
          h[i] = hopper::pack(swiglu<true>(hopper::low(v[i]), hopper::low(g[i])),
                              swiglu<true>(hopper::high(v[i]), hopper::high(g[i])));
        }
        store(value + offset + 16 * j, v, chunks);
        store(gate + offset + 16 * j, g, chunks);
        store(out + offset + 16 * j, h, chunks);
      }
      hopper::fence_for_copies();
      hopper::named_sync(5 + mine, kGroup);
      if (threadIdx.x % kGroup == 0) {
        const int column = tile.n * kHalf, row = tile.row + m * 64;
        hopper::store_box(maps.value, value, column, row);
        hopper::store_box(maps.gate, gate, column, row);
        hopper::store_box(maps.h, out, column, row);
        hopper::store_commit();
        hopper::store_wait_read<0>();
      }
    }
    hopper::named_arrive(4 - mine, 2 * kGroup);
  }
};

/// g_P and h from g_h in the accumulators and P, which a second feeding thread brings 32 columns at a time into one of
/// four slots, swizzled over 64 bytes; g_P takes P's place there.
struct BackwardEpilogue {
  static constexpr int kTileN = 128, kStages = 4, kSlots = 4, kBarriers = 2 * kSlots, kColumns = kTileN / kSlots;
  static constexpr uint32_t kRow = kColumns * 2, kPart = kTileM * kRow, kSlot = 3 * kPart;
  static constexpr uint32_t kBytesB = kTileN * kDepth * 2, kBytes = kSlots * kSlot;
  static constexpr bool kColumnsFirst = true, kNeedsRegisters = false, kWoven = false;
  struct Maps {
    CUtensorMap value, gate, g_value, g_gate, h;
  };
  using Memory = PingpongMemory<BackwardEpilogue>;

  /// Each block brings 64 columns.
  static __device__ void feed_b(const PingpongShape&, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    hopper::load_box_to_all(b, to + rank * (kBytesB / 2), full, n * kTileN + static_cast<int>(rank) * 64, k, 3);
  }
  static __device__ uint32_t filled(const Memory& memory, int slot) { return memory.epilogue_barrier(slot); }
  static __device__ uint32_t read(const Memory& memory, int slot) { return memory.epilogue_barrier(kSlots + slot); }

  static __device__ void prepare(const Maps&, const Memory&) {}
  static __device__ void feed(const PingpongShape& s, uint32_t rank, const Maps& maps, const Memory& memory) {
    uint32_t phase = 0;
    for (int t = blockIdx.x / 2; t < s.pairs_m * s.tiles_n; t += gridDim.x / 2, phase ^= 1) {
      const PingpongTile tile(s, rank, t);
      for (int slot = 0; slot < kSlots; ++slot) {
        const uint32_t to = memory.epilogue() + slot * kSlot;
        const int column = tile.n * kTileN + slot * kColumns;
        hopper::barrier_wait(read(memory, slot), phase ^ 1);
        hopper::barrier_expect(filled(memory, slot), 2 * kPart);
        hopper::load_box(maps.value, to, filled(memory, slot), column, tile.row);
        hopper::load_box(maps.gate, to + kPart, filled(memory, slot), column, tile.row);
      }
    }
  }

  static __device__ __forceinline__ void finish(float (&c)[2][kTileN / 2], const PingpongTile& tile, const Maps& maps,
                                                const Memory& memory, int number, int mine) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;
    const uint32_t offset = (warp * 16 + (lane & 15)) * kRow, column = lane >> 4, swizzle = lane >> 1 & 3;
    const bool stores = threadIdx.x % kGroup == 0;
    hopper::named_sync(3 + mine, 2 * kGroup);
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const uint32_t value = memory.epilogue() + slot * kSlot, gate = value + kPart, out = gate + kPart;
      hopper::barrier_wait(filled(memory, slot), number & 1);
      if (slot + 1 == kSlots) hopper::named_arrive(4 - mine, 2 * kGroup);
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int j = 0; j < kColumns / 8; j += 2) {
          const uint32_t at = offset + m * (64 * kRow) + (((j + column) ^ swizzle) << 4);
          uint32_t v[4], g[4], h[4];
          hopper::load_matrices(value + at, v[0], v[1], v[2], v[3]);
          hopper::load_matrices(gate + at, g[0], g[1], g[2], g[3]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float* gh = &c[m][slot * kColumns / 2 + 4 * j + 2 * i];
            const uint32_t rounded = hopper::pack(gh[0], gh[1]);
            float v0 = hopper::low(v[i]), v1 = hopper::high(v[i]), g0 = hopper::low(g[i]), g1 = hopper::high(g[i]);
            const float h0 = swiglu_backward<true>(v0, g0, hopper::low(rounded));
            const float h1 = swiglu_backward<true>(v1, g1, hopper::high(rounded));
            v[i] = hopper::pack(v0, v1), g[i] = hopper::pack(g0, g1), h[i] = hopper::pack(h0, h1);
          }
          hopper::store_matrices(value + at, v[0], v[1], v[2], v[3]);
          hopper::store_matrices(gate + at, g[0], g[1], g[2], g[3]);
          hopper::store_matrices(out + at, h[0], h[1], h[2], h[3]);
        }
      hopper::fence_for_copies();
      hopper::named_sync(5 + mine, kGroup);
      if (!stores) continue;
      const int first = tile.n * kTileN + slot * kColumns;
      hopper::store_box(maps.g_value, value, first, tile.row);
      hopper::store_box(maps.g_gate, gate, first, tile.row);
      hopper::store_box(maps.h, out, first, tile.row);
      hopper::store_commit();
      if (slot == 0) continue;
      hopper::store_wait_read<1>();  // not for the newest: its reading goes on beside the next slot's work
      hopper::barrier_arrive(read(memory, slot - 1));
    }
    if (!stores) return;
    hopper::store_wait_read<0>();
    hopper::barrier_arrive(read(memory, kSlots - 1));
  }
};

}  // namespace siamese::kernels
