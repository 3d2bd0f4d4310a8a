// A product as it is, of tiles of gemm_woven.cuh: rounded, 64 columns at a time. `m_fastest`, `n_fastest`: which way A
// and B lie.
#pragma once

#include "kernels/cuda/gemm_woven.cuh"

namespace siamese::kernels {

template <bool m_fastest, bool n_fastest>
struct WovenPlain : WovenEpilogue {
  static constexpr int kStages = 4, kBarriers = 0, kColumns = 64, kParts = kTileN / kColumns;
  static constexpr int kPart = kWovenHeld / kParts;
  static constexpr uint32_t kBox = 64 * 128, kBytes = 2 * kBox;
  static constexpr bool kRowsFirst = m_fastest, kColumnsFirst = n_fastest;
  struct Maps {
    CUtensorMap out;
  };
  using Memory = PingpongMemory<WovenPlain>;

  static __device__ void feed_b(const PingpongShape&, const CUtensorMap& b, uint32_t to, uint32_t full, int n, int k,
                                uint32_t rank) {
    n_fastest ? feed_columns_first(b, to, full, n, k, rank) : feed_k_first(b, to, full, n, k, rank);
  }

  static __device__ __forceinline__ void finish(int part, const uint32_t (&held)[kWovenHeld], const Ahead&,
                                                const PingpongTile& tile, const Maps& maps, const Memory& memory,
                                                int mine) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % kGroup / 32;
    const uint32_t place = memory.epilogue() + mine * kBox, row = place + (warp * 16 + (lane & 15)) * 128;
    const bool sends = threadIdx.x % kGroup == 0;
    if (sends) hopper::store_wait_read<0>();
    hopper::named_sync(1 + mine, kGroup);  // the last part has been read
#pragma unroll
    for (int j = 0; j < kColumns / 8; j += 2) {  // swizzled over 128 bytes
      const uint32_t* v = &held[2 * j];
      hopper::store_matrices(row + (((j + (lane >> 4)) ^ (lane & 7)) << 4), v[0], v[1], v[2], v[3]);
    }
    hopper::fence_for_copies();
    hopper::named_sync(1 + mine, kGroup);
    if (!sends) return;
    hopper::store_box(maps.out, place, tile.n * kTileN + part * kColumns, tile.row + mine * 64);
    hopper::store_commit();
  }
};

}  // namespace siamese::kernels
