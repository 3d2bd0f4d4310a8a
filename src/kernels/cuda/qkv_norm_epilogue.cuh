// What the product of gemm_qkv_norm.h does with a finished tile, 128 tokens of three heads of 64: as it is the part of
// q and k is kept, x; normed, and q and k turned, all of it goes to attention, y = R(γ·ρ·x); ρ is kept. Where `lean`, x
// is kept only where y does not tell it (head_gain.cuh). A row of a head lies in the four lanes of a quad
// (qkv_rope_epilogue.cuh).
#pragma once

#include "kernels/cuda/head_gain.cuh"
#include "kernels/cuda/hopper_rows.cuh"
#include "kernels/cuda/qkv_rope_epilogue.cuh"

namespace siamese::kernels {

/// Gains of q, k and v to shared memory; where lean, also whether y tells x. By all threads.
template <bool lean>
__device__ __forceinline__ void put_head_gains(const bfloat* const (&gain)[3], uint32_t gains, uint32_t alike_at) {
  constexpr int kHead = 64;
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int part = 0; part < 3; ++part)
    if (thread / kHead == part) hopper::put_shared(gains + thread * 4, head_gain(gain[part][thread % kHead]));
  if (!lean || thread >= 32) return;
  const bool alike = gains_alike(gain[0]) && gains_alike(gain[1]);
  if (thread == 0) hopper::put_shared(alike_at, alike ? 1.f : 0.f);
}

/// There are two places where 64 rows at a time are staged, for x and y, or for y in turn: while one leaves, the other
/// one is filled.
template <bool lean>
struct QkvNormEpilogue {
  static constexpr int kHeads = 3, kHead = 64, kTileN = kHeads * kHead, kStages = 4, kBarriers = 0;
  static constexpr uint32_t kPart = StagedRows<kHeads>::kPart, kPlace = kHeads * kPart, kGainsAt = 2 * kPlace;
  static constexpr uint32_t kAlikeAt = kGainsAt + 3 * kHead * 4;  // whether y tells x
  static constexpr uint32_t kBytesB = kTileN * kDepth * 2, kBytes = kAlikeAt + (lean ? 16 : 0);
  static constexpr bool kColumnsFirst = false, kNeedsRegisters = true, kWoven = false;
  struct Maps {
    CUtensorMap out, raw;  // y [m, all heads], x [m, heads of q and k]
    RopeTable table;
    const bfloat* gain[3];  // of q, k, v
    float* rho;             // [all heads, m]
    int queries, tokens;    // heads of q; m
    float eps;
  };
  using Memory = PingpongMemory<QkvNormEpilogue>;

  /// By all threads, before they meet.
  static __device__ void prepare(const Maps& maps, const Memory& memory) {
    put_head_gains<lean>(maps.gain, memory.epilogue() + kGainsAt, memory.epilogue() + kAlikeAt);
  }
  static __device__ void feed_b(const PingpongShape& s, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    QkvRopeEpilogue<kHeads>::feed_b(s, b, to, full, n, k, rank);
  }
  static __device__ void feed(const PingpongShape&, uint32_t, const Maps&, const Memory&) {}

  /// What the warpgroup has staged of heads below `heads` leaves; what it sent before has been read when all go on.
  static __device__ __forceinline__ void send(const CUtensorMap& to, uint32_t place, int head, int heads, int row,
                                              int mine) {
    const bool first = threadIdx.x % kGroup == 0;
    hopper::fence_for_copies();
    if (first) hopper::store_wait_read<0>();
    hopper::named_sync(5 + mine, kGroup);
    if (!first) return;
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      if (head + h < heads) hopper::store_box(to, place + h * kPart, (head + h) * kHead, row);
    hopper::store_commit();
  }

  static __device__ __forceinline__ float squares(uint32_t both) {
    return hopper::low(both) * hopper::low(both) + hopper::high(both) * hopper::high(both);
  }
  static __device__ __forceinline__ void finish(float (&c)[2][kTileN / 2], const PingpongTile& tile, const Maps& maps,
                                                const Memory& memory, int, int mine) {
    if (lean && hopper::shared_float(memory.epilogue() + kAlikeAt) != 0.f) {
      finish_and<false>(c, tile, maps, memory, mine);
    } else {
      finish_and<true>(c, tile, maps, memory, mine);
    }
  }
  template <bool keep>
  static __device__ __forceinline__ void finish_and(float (&c)[2][kTileN / 2], const PingpongTile& tile,
                                                    const Maps& maps, const Memory& memory, int mine) {
    const StagedRows<kHeads> rows(memory.epilogue(), tile);
    const int head = rows.head;
    const RopeTable& table = maps.table;
    const bool turns = head < table.heads;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const uint32_t place = keep || m == 1 ? kPlace : 0;  // of y
      // Rounded before it is normed, as the product followed by qkv_rope.h.
      uint32_t x[kHeads][4][4];  // chunks j and j + 4 of either row
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float* from = &c[m][32 * h + 4 * j + 2 * (i % 2) + 16 * (i / 2)];
            x[h][j][i] = hopper::pack(from[0], from[1]);
          }
      if (m == 0) hopper::named_sync(3 + mine, 2 * kGroup);  // the other group's rows have been read
      float rho[kHeads][2];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        rho[h][0] = rho[h][1] = 0.f;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (keep) hopper::store_matrices(rows.place(h, j), x[h][j][0], x[h][j][1], x[h][j][2], x[h][j][3]);
#pragma unroll
          for (int r = 0; r < 2; ++r) rho[h][r] += squares(x[h][j][r]) + squares(x[h][j][2 + r]);
        }
      }
      int at[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) at[r] = rows.angles(table, m, r);
      // Under way while x leaves, and the next chunk's while one is turned. More at a time were not faster.
      LaneAngles angles, next;
      if (turns) angles.load(table, at, 0);
      if (keep) send(maps.raw, memory.epilogue(), head, table.heads, tile.row + 64 * m, mine);
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float sum = rho[h][r];
          sum += __shfl_xor_sync(0xffffffffU, sum, 1);
          sum += __shfl_xor_sync(0xffffffffU, sum, 2);
          rho[h][r] = rsqrtf(sum * (1.f / kHead) + maps.eps);
          const int token = rows.row + 64 * m + 8 * r;
          if ((rows.lane & 3) == 0 && token < maps.tokens && head + h < table.heads + (table.heads - maps.queries))
            maps.rho[static_cast<int64_t>(head + h) * maps.tokens + token] = rho[h][r];
        }
#pragma unroll
      for (int j = 0; j < 4; ++j, angles = next) {
        if (turns && j < 3) next.load(table, at, j + 1);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const int part = head + h < maps.queries ? 0 : head + h < table.heads ? 1 : 2;
          const uint32_t gains = memory.epilogue() + kGainsAt + (part * kHead + 8 * j + (rows.lane & 3) * 2) * 4;
          const float2 of_a = hopper::shared_float2(gains), of_b = hopper::shared_float2(gains + 128);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            uint32_t &a = x[h][j][r], &b = x[h][j][2 + r];
            const float f = rho[h][r];
            float4 y = make_float4(hopper::low(a) * f * of_a.x, hopper::high(a) * f * of_a.y,
                                   hopper::low(b) * f * of_b.x, hopper::high(b) * f * of_b.y);
            if (head + h < table.heads) angles.turn(y, r);
            a = hopper::pack(y.x, y.y), b = hopper::pack(y.z, y.w);
          }
          hopper::store_matrices(rows.place(h, j) + place, x[h][j][0], x[h][j][1], x[h][j][2], x[h][j][3]);
        }
      }
      send(maps.out, memory.epilogue() + place, head, INT32_MAX, tile.row + 64 * m, mine);
    }
    if (threadIdx.x % kGroup == 0) hopper::store_wait_read<0>();
    hopper::named_arrive(4 - mine, 2 * kGroup);
  }
};

}  // namespace siamese::kernels
