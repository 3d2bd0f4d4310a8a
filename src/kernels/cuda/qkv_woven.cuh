// What the products of gemm_qkv_rope.h and gemm_qkv_norm.h do with a finished tile of gemm_woven.cuh: four heads of 64,
// each in two parts. The first part has the chunks 0, 1 and 4, 5 of eight columns, the second one the rest, so that the
// pairs (i, i + 32) that R turns lie together (qkv_rope_epilogue.cuh). Results are those of the other form bit for
// bit, though of the norms only as the compiler happens to join products and sums alike.
#pragma once

#include "kernels/cuda/gemm_woven.cuh"
#include "kernels/cuda/head_gain.cuh"
#include "kernels/cuda/hopper_rows.cuh"
#include "kernels/cuda/qkv_norm_epilogue.cuh"

namespace siamese::kernels {

/// A lane's rows of a head, two, eight apart, and where it stages them, swizzled over 128 bytes.
struct WovenRows {
  static constexpr uint32_t kBox = 64 * 128;
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;

  /// Of a tile's rows.
  __device__ __forceinline__ int row(const PingpongTile& tile, int mine) const {
    return tile.row + 64 * mine + static_cast<int>(warp * 16 + lane / 4);
  }
  /// Chunks j and j + 4.
  __device__ __forceinline__ uint32_t at(int j) const {
    return (warp * 16 + (lane & 15)) * 128 + (((j + (lane >> 4) * 4) ^ (lane & 7)) << 4);
  }
};

/// What both have in common.
struct WovenHeads : WovenEpilogue {
  static constexpr int kHead = 64, kHeads = kTileN / kHead, kParts = 2 * kHeads;
  static constexpr int kStages = 4, kBarriers = 0;
  static constexpr uint32_t kBox = WovenRows::kBox;
  static constexpr bool kColumnsFirst = false;

  /// Chunk j's two rows of a head, i / 16, are registers 2·j and 2·j + 1 of it.
  static constexpr __device__ int place(int i) {
    const int j = i / 2 % 8;
    return i / 16 * 16 + j % 4 / 2 * 8 + j / 4 * 4 + j % 2 * 2 + i % 2;
  }
  static __device__ int head(int part, const PingpongTile& tile) { return tile.n * kHeads + part / 2; }
  static __device__ void feed_b(const PingpongShape&, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    feed_k_first(b, to, full, n, k, rank);
  }

  /// The angles of a part's chunks.
  struct Ahead {
    int at[2] = {};
    LaneAngles angles[2];

    __device__ __forceinline__ void load(const RopeTable& table, int part, const PingpongTile& tile, int mine) {
      const WovenRows rows;
      if (part == 0)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          at[r] = (rows.row(tile, mine) + 8 * r) % table.length * 32 + static_cast<int>(rows.lane & 3) * 2;
      if (head(part, tile) >= table.heads) return;
#pragma unroll
      for (int i = 0; i < 2; ++i) angles[i].load(table, at, part % 2 * 2 + i);
    }
  };
};

struct WovenRope : WovenHeads {
  static constexpr uint32_t kBytes = 2 * kBox;
  struct Maps {
    CUtensorMap out;
    RopeTable table;
  };
  using Memory = PingpongMemory<WovenRope>;

  static __device__ __forceinline__ void fetch(int part, Ahead& ahead, const PingpongTile& tile, const Maps& maps,
                                               int mine) {
    ahead.load(maps.table, part, tile, mine);
  }
  static __device__ __forceinline__ void finish(int part, const uint32_t (&held)[kWovenHeld], const Ahead& ahead,
                                                const PingpongTile& tile, const Maps& maps, const Memory& memory,
                                                int mine) {
    const WovenRows rows;
    const uint32_t place = memory.epilogue() + mine * kBox;
    const bool sends = threadIdx.x % kGroup == 0, turns = head(part, tile) < maps.table.heads;
    if (part % 2 == 0) {  // the last head has been read
      if (sends) hopper::store_wait_read<0>();
      hopper::named_sync(1 + mine, kGroup);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t a[2], b[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        a[r] = held[2 * i + r], b[r] = held[4 + 2 * i + r];
        if (turns) ahead.angles[i].turn(a[r], b[r], r);
      }
      hopper::store_matrices(place + rows.at(part % 2 * 2 + i), a[0], a[1], b[0], b[1]);
    }
    if (part % 2 == 0) return;
    hopper::fence_for_copies();
    hopper::named_sync(1 + mine, kGroup);
    if (!sends) return;
    hopper::store_box(maps.out, place, head(part, tile) * kHead, tile.row + mine * 64);
    hopper::store_commit();
  }
};

/// x of q and k leaves from one place, y from another.
template <bool lean>
struct WovenNorm : WovenHeads {
  using Alone = QkvNormEpilogue<lean>;
  using Maps = typename Alone::Maps;
  static constexpr uint32_t kGainsAt = 2 * 2 * kBox, kAlikeAt = kGainsAt + 3 * kHead * 4;
  static constexpr uint32_t kBytes = kAlikeAt + (lean ? 16 : 0);
  using Memory = PingpongMemory<WovenNorm>;

  struct Ahead : WovenHeads::Ahead {
    float rho[2] = {};
  };

  /// By all threads, before they meet.
  static __device__ void prepare(const Maps& maps, const Memory& memory) {
    put_head_gains<lean>(maps.gain, memory.epilogue() + kGainsAt, memory.epilogue() + kAlikeAt);
  }
  static __device__ __forceinline__ void fetch(int part, Ahead& ahead, const PingpongTile& tile, const Maps& maps,
                                               int mine) {
    ahead.load(maps.table, part, tile, mine);
  }

  /// 1/rms of a head's rows; x of q and k leaves.
  static __device__ __forceinline__ void begin_head(int head, const uint32_t (&held)[kWovenHeld], float (&rho)[2],
                                                    const PingpongTile& tile, const Maps& maps, const Memory& memory,
                                                    uint32_t place, int mine) {
    const WovenRows rows;
    const bool sends = threadIdx.x % kGroup == 0;
    const bool keep = head < maps.table.heads && !(lean && hopper::shared_float(memory.epilogue() + kAlikeAt) != 0.f);
    if (sends) hopper::store_wait_read<0>();
    hopper::named_sync(1 + mine, kGroup);  // the last head has been read
    if (keep) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int a = j / 2 * 8 + j % 2 * 2, b = a + 4;
        hopper::store_matrices(place + rows.at(j), held[a], held[a + 1], held[b], held[b + 1]);
      }
      hopper::fence_for_copies();
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = 0.f;
      // In the order of the other form: chunks j and j + 4.
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int a = j / 2 * 8 + j % 2 * 2 + r;
        sum += Alone::squares(held[a]) + Alone::squares(held[a + 4]);
      }
      sum += __shfl_xor_sync(0xffffffffU, sum, 1);
      sum += __shfl_xor_sync(0xffffffffU, sum, 2);
      rho[r] = rsqrtf(sum * (1.f / kHead) + maps.eps);
      const int token = rows.row(tile, mine) + 8 * r;
      if ((rows.lane & 3) == 0 && token < maps.tokens && head < maps.table.heads + (maps.table.heads - maps.queries))
        maps.rho[static_cast<int64_t>(head) * maps.tokens + token] = rho[r];
    }
    if (!keep) return;
    hopper::named_sync(1 + mine, kGroup);
    if (!sends) return;
    hopper::store_box(maps.raw, place, head * kHead, tile.row + mine * 64);
    hopper::store_commit();
  }

  static __device__ __forceinline__ void finish(int part, const uint32_t (&held)[kWovenHeld], Ahead& ahead,
                                                const PingpongTile& tile, const Maps& maps, const Memory& memory,
                                                int mine) {
    const WovenRows rows;
    const int h = head(part, tile), kind = h < maps.queries ? 0 : h < maps.table.heads ? 1 : 2;
    const uint32_t of_x = memory.epilogue() + mine * (2 * kBox), of_y = of_x + kBox;
    if (part % 2 == 0) begin_head(h, held, ahead.rho, tile, maps, memory, of_x, mine);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int j = part % 2 * 2 + i;
      const uint32_t gains =
          memory.epilogue() + kGainsAt + (kind * kHead + 8 * j + static_cast<int>(rows.lane & 3) * 2) * 4;
      const float2 of_a = hopper::shared_float2(gains), of_b = hopper::shared_float2(gains + 128);
      uint32_t a[2], b[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        a[r] = held[2 * i + r], b[r] = held[4 + 2 * i + r];
        const float f = ahead.rho[r];
        float4 y = make_float4(hopper::low(a[r]) * f * of_a.x, hopper::high(a[r]) * f * of_a.y,
                               hopper::low(b[r]) * f * of_b.x, hopper::high(b[r]) * f * of_b.y);
        if (kind < 2) ahead.angles[i].turn(y, r);
        a[r] = hopper::pack(y.x, y.y), b[r] = hopper::pack(y.z, y.w);
      }
      hopper::store_matrices(of_y + rows.at(j), a[0], a[1], b[0], b[1]);
    }
    if (part % 2 == 0) return;
    hopper::fence_for_copies();
    hopper::named_sync(1 + mine, kGroup);
    if (threadIdx.x % kGroup != 0) return;
    hopper::store_box(maps.out, of_y, h * kHead, tile.row + mine * 64);
    hopper::store_commit();
  }
};

}  // namespace siamese::kernels
