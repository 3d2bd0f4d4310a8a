// Gradients by columns, which attention_of_keys.cu and attention_at_once.cu share: g_V = Pᵀ·G and g_K = c·dSᵀ·Q with
// dS = P⊙(G·Vᵀ - D). A block owns 128 keys and values of a head; the queries of all heads that share them, with their
// gradients, sums and D, stream by in tiles of 64, from the diagonal (or the start) on.
#pragma once

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/attention_lanes.cuh"

namespace siamese::kernels::attention {

constexpr uint32_t kNumbers = 64 * 4, kColumnStage = 2 * kTile64 + 1024;  // Q, G, then 64 log sums and 64 dots

struct ColumnMaps {
  CUtensorMap q, k, v, g, g_k, g_v;

  bool make(const AttentionCuda& call) {
    return make_boxes(&q, call.q, call.heads, call, 64) && make_boxes(&g, call.g, call.heads, call, 64) &&
           make_boxes(&k, call.k, call.kv_heads, call, 128) && make_boxes(&v, call.v, call.kv_heads, call, 128) &&
           make_boxes(&g_k, call.g_k, call.kv_heads, call, 64) && make_boxes(&g_v, call.g_v, call.kv_heads, call, 64);
  }
};

/// The tile after t: those from `first` on, round and round.
__device__ __forceinline__ int tile_after(int t, int first, int tiles) { return t + 1 < tiles ? t + 1 : first; }

/// Items: the blocks of keys that a thread block owns, one after the other: more(), next(), block, batch, head; tiles
/// of queries from start() on, after the last one from the first one that looks at these keys.
template <bool causal, class Items>
__device__ __forceinline__ void feed_columns(const Shape& s, const ColumnMaps& maps, const float* log_sums,
                                             const float* dots, Memory& memory) {
  for (Items item(s); item.more(); item.next()) {
    const uint32_t own = memory.own.stage(), filled = memory.own.filled();
    memory.own.wait_empty();
    hopper::barrier_expect(filled, 2 * kTile128);
    hopper::load_box(maps.k, own, filled, item.head * kHead, item.block * kOwned, item.batch);
    hopper::load_box(maps.v, own + kTile128, filled, item.head * kHead, item.block * kOwned, item.batch);
    memory.own.advance();
    const int first = causal ? 2 * item.block : 0, tiles = query_tiles(s.length);
    for (int head = item.head * s.group(); head < (item.head + 1) * s.group(); ++head)
#pragma unroll 1
      for (int n = first, t = item.start(first); n < tiles; ++n, t = tile_after(t, first, tiles)) {
        const uint32_t to = memory.ring.stage(), full = memory.ring.filled();
        const int64_t numbers = static_cast<int64_t>(item.batch * s.heads + head) * s.rows + t * 64;
        memory.ring.wait_empty();
        hopper::barrier_expect(full, 2 * kTile64 + 2 * kNumbers);
        hopper::load_box(maps.q, to, full, head * kHead, t * 64, item.batch);
        hopper::load_box(maps.g, to + kTile64, full, head * kHead, t * 64, item.batch);
        copy_bulk(to + 2 * kTile64, log_sums + numbers, kNumbers, full);
        copy_bulk(to + 2 * kTile64 + kNumbers, dots + numbers, kNumbers, full);
        memory.ring.advance();
      }
  }
}

/// `sink` keeps dSᵀ of a tile of queries for the product with Q, a turn later: take(dS), or nothing() where no query of
/// the tile looks at these 64 keys; times_queries() starts the product, hold() is past it. It says where g_K may be
/// put; begin() when what was there has left. Where kNormed, it takes g_K and g_V through the norms of k and v, with
/// the ρ of these rows.
template <bool causal, class Items, class Angles, class Sink>
__device__ __forceinline__ void differentiate_columns(const Shape& shape, const ColumnMaps& maps, Memory& memory,
                                                      const Angles& angles, int mine, Sink& sink) {
  const Lane lane;
  const Turns turns(mine);
  Ring& ring = memory.ring;
  bool sent = false;
  for (Items item(shape); item.more(); item.next()) {
    uint32_t k[16], v[16], p[16] = {};
    float g_k[32], g_v[32];
    memory.own.wait_filled();
    const uint32_t own = memory.own.stage() + mine * kTile64;
    load_rows(k, own, lane);
    load_rows(v, own + kTile128, lane);
    if (sent) has_left(memory, memory.own.at ^ 1);  // by now it has
    sink.begin(item, item.block * kOwned + mine * 64);
    // Each turn: Sᵀ and V·Gᵀ of this tile, and Pᵀ·G and dSᵀ·Q of the last one: at first anything, which the second turn
    // does not add to. (Keys without any tile of queries lie past the end.)
    uint32_t last_q = own, last_g = own + kTile128;
    int stage = -1, turn = 0;
    const int first = causal ? 2 * item.block : 0, tiles = query_tiles(shape.length);
    for (int n = 0, t = item.start(first); n < shape.group() * (tiles - first); ++n, t = tile_after(t, first, tiles)) {
      ring.wait_filled();
      if (causal && t < first + mine) {  // these queries look at nothing of ours
        turns.begin();
        turns.end();
        sink.nothing();
        ring.release(ring.at);
        ring.advance();
        continue;
      }
      const uint32_t q = ring.stage(), numbers = q + 2 * kTile64 + lane.column * 4;
      float s[32], dp[32];
      turns.begin();
      times_transposed<64>(s, k, q);
      hopper::products_commit();
      times_transposed<64>(dp, v, q + kTile64);
      hopper::products_commit();
      times<4>(g_v, p, last_g, turn > 1);
      hopper::products_commit();
      sink.times_queries(g_k, last_q, turn > 1);
      hopper::products_commit();
      turns.end();
      float2 shift[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) shift[j] = hopper::shared_float2(numbers + 32 * j);
      hopper::products_wait<3>();
#pragma unroll
      for (int c = 0; c < 32; ++c)
        s[c] = exp2_fast(fmaf(s[c], shape.scale_log2, -((c & 1) ? shift[c / 4].y : shift[c / 4].x)));
      if (causal && t == first + mine) {  // the diagonal
#pragma unroll
        for (int c = 0; c < 32; ++c)
          if (lane.row + (c >> 1 & 1) * 8 > 8 * (c / 4) + lane.column + (c & 1)) s[c] = 0.f;
      }
      float2 dot[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) dot[j] = hopper::shared_float2(numbers + kNumbers + 32 * j);
      hopper::products_wait<2>();
#pragma unroll
      for (int c = 0; c < 32; ++c) dp[c] = s[c] * (dp[c] - ((c & 1) ? dot[c / 4].y : dot[c / 4].x));
      hopper::products_wait<1>();
      hopper::hold(p);
      pack_rows<32>(p, s);
      hopper::products_wait<0>();
      sink.take(dp);
      if (stage >= 0) ring.release(stage);
      last_q = q, last_g = q + kTile64, stage = ring.at, ++turn;
      ring.advance();
    }
    const int row = item.block * kOwned + mine * 64;
    const auto rho = sink.rho(item, row + lane.row);
    turns.begin();
    times<4>(g_v, p, last_g, turn > 1);
    sink.times_queries(g_k, last_q, turn > 1);
    hopper::products_commit();
    turns.end();
    hopper::products_wait<0>();
    hopper::hold(p);
    sink.hold();
    if (stage >= 0) ring.release(stage);
    const uint32_t place = sink.place_of_keys(own);
    if constexpr (Sink::kNormed) {
      sink.through_norms(g_k, g_v, k, v, rho, angles, row);
      store_rows(own + kTile128, g_v, lane, 1.f, 1.f);
      store_rows(place, g_k, lane, 1.f, 1.f);
    } else {
      if (angles.on()) {
        float4 turn_by[8];
        angles.load(turn_by, lane, row);
        store_rows(own + kTile128, g_v, lane, 1.f, 1.f);  // while they come
        turn_back(g_k, turn_by);
      } else {
        store_rows(own + kTile128, g_v, lane, 1.f, 1.f);
      }
      store_rows(place, g_k, lane, shape.scale, shape.scale);
    }
    send_off(mine, [&] {
      hopper::store_box(maps.g_k, place, item.head * kHead, row, item.batch);
      hopper::store_box(maps.g_v, own + kTile128, item.head * kHead, row, item.batch);
    });
    memory.own.advance(), sent = true;
  }
  if (sent) has_left(memory, memory.own.at ^ 1);
}

}  // namespace siamese::kernels::attention
