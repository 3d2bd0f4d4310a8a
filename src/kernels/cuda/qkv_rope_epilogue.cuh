// What the product of gemm_qkv_rope.h does with a finished tile: 128 tokens, two or three heads of 64. Of a head's row
// a lane has columns 8j + 2t and 8j + 2t + 1 (t = lane % 4, j = 0 … 7), so that both values of the pairs (i, i + 32)
// which R turns lie in one thread: in the chunks j and j + 4 of eight columns.
#pragma once

#include "kernels/cuda/gemm_pingpong.cuh"

namespace siamese::kernels {

/// cos and sin [length, 32]; token t stands at position t mod length. `heads`: those that R turns, v's come after them.
struct RopeTable {
  const float *cos, *sin;
  int length, heads;
};

/// The angles of a lane's two pairs of chunk j in its two rows, eight apart: the same for all heads.
struct LaneAngles {
  float2 cos[2] = {}, sin[2] = {};

  __device__ __forceinline__ void load(const RopeTable& table, const int (&at)[2], int j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      cos[r] = __ldg(reinterpret_cast<const float2*>(table.cos + at[r] + 8 * j));
      sin[r] = __ldg(reinterpret_cast<const float2*>(table.sin + at[r] + 8 * j));
    }
  }
  /// [a·cos - b·sin, b·cos + a·sin] in row r. The product with the sine is rounded, as in qkv_rope.cu: the same bits.
  __device__ __forceinline__ void turn(uint32_t& a, uint32_t& b, int r) const {
    const float a0 = hopper::low(a), a1 = hopper::high(a), b0 = hopper::low(b), b1 = hopper::high(b);
    const float2 c = cos[r], s = sin[r];
    a = hopper::pack(__fmaf_rn(a0, c.x, -__fmul_rn(b0, s.x)), __fmaf_rn(a1, c.y, -__fmul_rn(b1, s.y)));
    b = hopper::pack(__fmaf_rn(b0, c.x, __fmul_rn(a0, s.x)), __fmaf_rn(b1, c.y, __fmul_rn(a1, s.y)));
  }
  /// a's two values, then b's.
  __device__ __forceinline__ void turn(float4& y, int r) const {
    const float2 c = cos[r], s = sin[r];
    y = make_float4(y.x * c.x - y.z * s.x, y.y * c.y - y.w * s.y, y.z * c.x + y.x * s.x, y.w * c.y + y.y * s.y);
  }
};

/// A thread's part of a tile: two rows, eight apart, in either half of 64, and where it stages them.
template <int kHeads>
struct StagedRows {
  static constexpr uint32_t kRow = 128, kPart = 64 * kRow;  // bytes of a head's row and of 64 of them
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;
  uint32_t to, column = (lane >> 4) * 4;
  int head, row;

  __device__ __forceinline__ StagedRows(uint32_t memory, const PingpongTile& tile)
      : to(memory + (warp * 16 + (lane & 15)) * kRow),
        head(tile.n * kHeads),
        row(tile.row + static_cast<int>(warp * 16 + lane / 4)) {}
  /// Chunks j and j + 4 of head h.
  __device__ __forceinline__ uint32_t place(int h, int j) const {
    return to + h * kPart + (((j + column) ^ (lane & 7)) << 4);
  }
  /// Where the angles of this lane begin.
  __device__ __forceinline__ int angles(const RopeTable& table, int m, int r) const {
    return (row + 64 * m + 8 * r) % table.length * 32 + static_cast<int>(lane & 3) * 2;
  }
};

/// A warpgroup stages 64 rows at a time, every head in a box of its own, swizzled over the 128 bytes of a row.
template <int kHeads>
struct QkvRopeEpilogue {
  static constexpr int kHead = 64, kTileN = kHeads * kHead, kStages = kHeads == 3 ? 5 : 6, kBarriers = 0;
  static constexpr uint32_t kPart = StagedRows<kHeads>::kPart;
  static constexpr uint32_t kBytesB = kTileN * kDepth * 2, kBytes = kHeads * kPart;
  static constexpr bool kColumnsFirst = false, kNeedsRegisters = false, kWoven = false;
  struct Maps {
    CUtensorMap out;
    RopeTable table;
  };
  using Memory = PingpongMemory<QkvRopeEpilogue>;

  /// Each block brings half of the tile's rows of W.
  static __device__ void feed_b(const PingpongShape&, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    const int half = static_cast<int>(rank) * (kTileN / 2);
    hopper::load_box_to_all(b, to + rank * (kBytesB / 2), full, k, n * kTileN + half, 3);
  }
  static __device__ void feed(const PingpongShape&, uint32_t, const Maps&, const Memory&) {}
  static __device__ void prepare(const Maps&, const Memory&) {}

  static __device__ __forceinline__ void finish(float (&c)[2][kTileN / 2], const PingpongTile& tile, const Maps& maps,
                                                const Memory& memory, int, int mine) {
    const StagedRows<kHeads> rows(memory.epilogue(), tile);
    const int head = rows.head;
    const RopeTable& table = maps.table;
    const bool turns = head < table.heads;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      int at[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) at[r] = rows.angles(table, m, r);
      // The next chunk's are under way while one is turned: more would not fit beside the accumulators.
      LaneAngles angles, next;
      if (turns) angles.load(table, at, 0);
      // The other group's rows, or this one's first ones, have been read.
      m == 0 ? hopper::named_sync(3 + mine, 2 * kGroup) : hopper::named_sync(5 + mine, kGroup);
#pragma unroll
      for (int j = 0; j < 4; ++j, angles = next) {
        if (turns && j < 3) next.load(table, at, j + 1);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float *ca = &c[m][32 * h + 4 * j], *cb = ca + 16;
          uint32_t a[2], b[2];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            a[r] = hopper::pack(ca[2 * r], ca[2 * r + 1]);
            b[r] = hopper::pack(cb[2 * r], cb[2 * r + 1]);
            if (head + h < table.heads) angles.turn(a[r], b[r], r);
          }
          hopper::store_matrices(rows.place(h, j), a[0], a[1], b[0], b[1]);
        }
      }
      hopper::fence_for_copies();
      hopper::named_sync(5 + mine, kGroup);
      if (threadIdx.x % kGroup == 0) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h)
          hopper::store_box(maps.out, memory.epilogue() + h * kPart, (head + h) * kHead, tile.row + m * 64);
        hopper::store_commit();
        hopper::store_wait_read<0>();
      }
    }
    hopper::named_arrive(4 - mine, 2 * kGroup);
  }
};

}  // namespace siamese::kernels
