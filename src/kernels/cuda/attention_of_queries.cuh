// g_Q = c·dS·K by rows, dS = P⊙(G·Vᵀ - D). A block owns 128 queries of a head; keys and values stream by in tiles of
// 128, from the diagonal (or the end) backwards, and are taken 64 at a time.
#pragma once

#include "kernels/cuda/attention_lanes.cuh"

namespace siamese::kernels::attention::of_queries {

constexpr int kStages = 5;
constexpr uint32_t kBytes = Memory::bytes(2 * kTile128, 2 * kTile128, kStages);  // Q and G; K and V

struct Maps {
  CUtensorMap q, k, v, g, g_q;
};

template <bool causal>
__device__ __forceinline__ void feed(const Shape& s, const Maps& maps, Memory& memory) {
  for (int i = blockIdx.x; i < s.blocks * s.batch * s.heads; i += gridDim.x) {
    const QueryItem item(s, i);
    const int kv = item.head / s.group() * kHead, row = item.block * kOwned;
    memory.own.wait_empty();
    hopper::barrier_expect(memory.own.filled(), 2 * kTile128);
    hopper::load_box(maps.q, memory.own.stage(), memory.own.filled(), item.head * kHead, row, item.batch);
    hopper::load_box(maps.g, memory.own.stage() + kTile128, memory.own.filled(), item.head * kHead, row, item.batch);
    memory.own.advance();
    for (int j = s.last<causal>(item.block); j >= 0; --j) {
      memory.ring.wait_empty();
      hopper::barrier_expect(memory.ring.filled(), 2 * kTile128);
      hopper::load_box(maps.k, memory.ring.stage(), memory.ring.filled(), kv, j * 128, item.batch);
      hopper::load_box(maps.v, memory.ring.stage() + kTile128, memory.ring.filled(), kv, j * 128, item.batch);
      memory.ring.advance();
    }
  }
}

template <bool causal>
__device__ __forceinline__ void differentiate(const Shape& shape, const Maps& maps, Memory& memory,
                                              const float* log_sums, const float* dots, const float* cos,
                                              const float* sin, int mine) {
  const Lane lane;
  const Turns turns(mine);
  Ring& ring = memory.ring;
  for (int i = blockIdx.x; i < shape.blocks * shape.batch * shape.heads; i += gridDim.x) {
    const QueryItem item(shape, i);
    const int row = item.block * kOwned + mine * 64 + lane.row;
    const int64_t at = static_cast<int64_t>(item.batch * shape.heads + item.head) * shape.rows + row;
    const float shift[2] = {log_sums[at], log_sums[at + 8]}, dot[2] = {dots[at], dots[at + 8]};
    uint32_t q[16], g[16], ds[16] = {};
    float g_q[32];
    memory.own.wait_filled();
    const uint32_t own = memory.own.stage() + mine * kTile64;
    load_rows(q, own, lane);
    load_rows(g, own + kTile128, lane);
    // Each turn: S and G·Vᵀ of this tile, and dS·K of the last one, at first zero times anything.
    uint32_t last = own;
    int stage = -1;
    bool any = false;
    const int last_block = shape.last<causal>(item.block);
    for (int j = last_block; j >= 0; --j) {
      ring.wait_filled();
      for (int half = 0; half < 2; ++half) {
        const uint32_t k = ring.stage() + half * kTile64;
        const int left = shape.length - 128 * j - 64 * half;                    // keys from here on
        if (causal ? j == item.block && half > mine : half > 0 && left <= 0) {  // all ahead of these queries, or none
          turns.begin();
          turns.end();
          continue;
        }
        float s[32], dp[32];
        turns.begin();
        times_transposed<64>(s, q, k);
        hopper::products_commit();
        times_transposed<64>(dp, g, k + kTile128);
        hopper::products_commit();
        times<4>(g_q, ds, last, any);
        hopper::products_commit();
        turns.end();
        hopper::products_wait<2>();
#pragma unroll
        for (int c = 0; c < 32; ++c) s[c] = exp2_fast(fmaf(s[c], shape.scale_log2, -shift[c >> 1 & 1]));
        if (causal ? j == item.block && half == mine : left < 64) {  // the diagonal, or the end
#pragma unroll
          for (int c = 0; c < 32; ++c) {
            const int column = 8 * (c / 4) + lane.column + (c & 1);
            if (causal ? column > lane.row + (c >> 1 & 1) * 8 : column >= left) s[c] = 0.f;
          }
        }
        hopper::products_wait<1>();
#pragma unroll
        for (int c = 0; c < 32; ++c) s[c] *= dp[c] - dot[c >> 1 & 1];
        hopper::products_wait<0>();
        hopper::hold(ds);
        if (stage >= 0 && stage != ring.at) ring.release(stage);
        pack_rows<32>(ds, s);
        last = k, stage = ring.at, any = true;
      }
      ring.advance();
    }
    turns.begin();
    times<4>(g_q, ds, last, any);
    hopper::products_commit();
    turns.end();
    hopper::products_wait<0>();
    hopper::hold(ds);
    ring.release(stage);
    if (cos != nullptr) {
      float4 angles[8];
      AngleTables{cos, sin, shape.length}.load(angles, lane, item.block * kOwned + mine * 64);
      turn_back(g_q, angles);
    }
    store_rows(own, g_q, lane, shape.scale, shape.scale);
    hand_over(memory, mine, [&] {
      hopper::store_box(maps.g_q, own, item.head * kHead, item.block * kOwned + mine * 64, item.batch);
    });
  }
}

template <bool causal>
__global__ void __launch_bounds__(kThreads, 1)
    kernel(const Shape shape, const __grid_constant__ Maps maps, const float* log_sums, const float* dots,
           const float* cos, const float* sin) {
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  Memory memory(hopper::shared_address(dynamic_bytes), 2 * kTile128, 2 * kTile128, kStages);
  in_roles([&] { feed<causal>(shape, maps, memory); },
           [&](int mine) { differentiate<causal>(shape, maps, memory, log_sums, dots, cos, sin, mine); });
}

}  // namespace siamese::kernels::attention::of_queries
