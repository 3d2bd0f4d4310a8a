// O = softmax(c·QKᵀ)·V by rows. A block owns 128 queries of a head; keys and values stream by in tiles of 128, from the
// diagonal (or the end) backwards, with the running maximum m and sum l of each row: P = 2^(S - m), O ← O·2^(m - m') +
// P·V.
#pragma once

#include "kernels/cuda/attention_lanes.cuh"

namespace siamese::kernels::attention::forward {

constexpr int kStages = 12;  // a tile of K, one of V, …
constexpr uint32_t kBytes = Memory::bytes(kTile128, kTile128, kStages);

struct Maps {
  CUtensorMap q, k, v, out;
};

template <bool causal>
__device__ __forceinline__ void feed(const Shape& s, const Maps& maps, Memory& memory) {
  for (int i = blockIdx.x; i < s.blocks * s.batch * s.heads; i += gridDim.x) {
    const QueryItem item(s, i);
    const int kv = item.head / s.group() * kHead;
    memory.own.wait_empty();
    hopper::barrier_expect(memory.own.filled(), kTile128);
    hopper::load_box(maps.q, memory.own.stage(), memory.own.filled(), item.head * kHead, item.block * kOwned,
                     item.batch);
    memory.own.advance();
    for (int j = s.last<causal>(item.block); j >= 0; --j)
      for (const CUtensorMap* map : {&maps.k, &maps.v}) {
        memory.ring.wait_empty();
        hopper::barrier_expect(memory.ring.filled(), kTile128);
        hopper::load_box(*map, memory.ring.stage(), memory.ring.filled(), kv, j * 128, item.batch);
        memory.ring.advance();
      }
  }
}

/// One tile's softmax: S becomes P; m, l and the factor for what was summed so far. Two chains a row, so that a warp,
/// alone on its scheduler, does not wait for itself.
__device__ __forceinline__ void soften(float (&s)[64], float (&m)[2], float (&l)[2], float (&factor)[2], float scale) {
  float most[2][2] = {{m[0], m[0]}, {m[1], m[1]}}, sum[2][2] = {}, shift[2];
#pragma unroll
  for (int j = 0; j < 16; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& chain = most[half][j & 1];
      chain = fmaxf(chain, fmaxf(s[4 * j + 2 * half], s[4 * j + 2 * half + 1]));
    }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float all = fmaxf(most[half][0], most[half][1]);
    all = fmaxf(all, __shfl_xor_sync(0xffffffffU, all, 1));
    all = fmaxf(all, __shfl_xor_sync(0xffffffffU, all, 2));
    factor[half] = exp2_fast((m[half] - all) * scale);
    m[half] = all;
    shift[half] = all * scale;
  }
#pragma unroll
  for (int j = 0; j < 16; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float *a = &s[4 * j + 2 * half], *b = a + 1;
      *a = exp2_fast(fmaf(*a, scale, -shift[half])), *b = exp2_fast(fmaf(*b, scale, -shift[half]));
      sum[half][j & 1] += *a + *b;
    }
#pragma unroll
  for (int half = 0; half < 2; ++half) l[half] = l[half] * factor[half] + (sum[half][0] + sum[half][1]);
}

template <bool causal>
__device__ __forceinline__ void attend(const Shape& shape, const Maps& maps, Memory& memory, float* log_sums,
                                       int mine) {
  const Lane lane;
  const Turns turns(mine);
  Ring& ring = memory.ring;
  for (int i = blockIdx.x; i < shape.blocks * shape.batch * shape.heads; i += gridDim.x) {
    const QueryItem item(shape, i);
    uint32_t q[16], p[32];
    float o[32], s[64], m[2] = {-INFINITY, -INFINITY}, l[2] = {0.f, 0.f}, factor[2];
    memory.own.wait_filled();
    const uint32_t own = memory.own.stage() + mine * kTile64;
    load_rows(q, own, lane);
    ring.wait_filled();
    turns.begin();
    times_transposed<128>(s, q, ring.stage());
    hopper::products_commit();
    turns.end();
    hopper::products_wait<0>();
    ring.release(ring.at);
    ring.advance();
    const int last = shape.last<causal>(item.block), left = shape.length - 128 * last;
#pragma unroll
    for (int c = 0; c < 64; ++c) {  // ahead of the diagonal, or past the end
      const int column = 8 * (c / 4) + lane.column + (c & 1);
      if (causal ? column > mine * 64 + lane.row + (c >> 1 & 1) * 8 : column >= left) s[c] = -INFINITY;
    }
    soften(s, m, l, factor, shape.scale_log2);
    pack_rows<64>(p, s);
    for (int j = last - 1; j >= 0; --j) {  // S of this tile, P·V of the last one
      ring.wait_filled();
      const int of_v = ring.at;
      const uint32_t v = ring.stage();
      ring.advance();
      ring.wait_filled();
      turns.begin();
      times_transposed<128>(s, q, ring.stage());
      hopper::products_commit();
      times<8>(o, p, v, j + 1 < last);
      hopper::products_commit();
      turns.end();
      hopper::products_wait<1>();
      ring.release(ring.at);
      ring.advance();
      soften(s, m, l, factor, shape.scale_log2);
      // All lanes in any case, but it hangs on all of P: the compiler would move the wait up before the exponentials.
      __syncwarp(l[0] + l[1] < 0.f ? 0U : 0xffffffffU);
      hopper::products_wait<0>();
      hopper::hold(p);
      ring.release(of_v);
#pragma unroll
      for (int c = 0; c < 32; ++c) o[c] *= factor[c >> 1 & 1];
      pack_rows<64>(p, s);
    }
    ring.wait_filled();
    turns.begin();
    times<8>(o, p, ring.stage(), last > 0);
    hopper::products_commit();
    turns.end();
    hopper::products_wait<0>();
    hopper::hold(p);
    ring.release(ring.at);
    ring.advance();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      l[half] += __shfl_xor_sync(0xffffffffU, l[half], 1);
      l[half] += __shfl_xor_sync(0xffffffffU, l[half], 2);
      factor[half] = 1.f / l[half];
      const int row = item.block * kOwned + mine * 64 + lane.row + 8 * half;
      // Rows past the end are as if they summed to infinity: the backward pass makes nothing of them.
      if (lane.column == 0)
        log_sums[static_cast<int64_t>(item.batch * shape.heads + item.head) * shape.rows + row] =
            row < shape.length ? m[half] * shape.scale_log2 + __log2f(l[half]) : INFINITY;
    }
    store_rows(own, o, lane, factor[0], factor[1]);
    hand_over(memory, mine, [&] {
      hopper::store_box(maps.out, own, item.head * kHead, item.block * kOwned + mine * 64, item.batch);
    });
  }
}

template <bool causal>
__global__ void __launch_bounds__(kThreads, 1)
    kernel(const Shape shape, const __grid_constant__ Maps maps, float* log_sums) {
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  Memory memory(hopper::shared_address(dynamic_bytes), kTile128, kTile128, kStages);
  in_roles([&] { feed<causal>(shape, maps, memory); },
           [&](int mine) { attend<causal>(shape, maps, memory, log_sums, mine); });
}

}  // namespace siamese::kernels::attention::forward
