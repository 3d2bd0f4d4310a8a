// The first half of mhc's forward step in one launch (roles: mhc_ring.cuh): rows come, are mixed, and their sums over
// the row leave the block: 24 products with the weights by the tensor cores, 10 of the streams with one another.
#pragma once

#include "kernels/cuda/mhc_ring.cuh"

namespace siamese::kernels::ring {

/// Warp `half` of two asks for tokens 4·half … + 3, two at a time, a row by 16 lanes.
__device__ __forceinline__ void ask(const Place& me, int half) {
  const MhcForwardCuda& p = me.p;
  const bfloat* const h = static_cast<const bfloat*>(p.h);
  const bfloat* const r = static_cast<const bfloat*>(p.r);
  const int lane = me.lane, part = lane % 16, column = me.rank * kBlockColumns + 8 * part;
  Turn turn;
  int i = 0;
  for (int tile = me.first; tile < me.tiles; tile += me.step, ++i) {
    if (i >= me.stages) wait(me.s.free[turn.stage], turn.phase ^ 1);
    const int64_t token0 = static_cast<int64_t>(tile) * kTileTokens + 4 * half;
    if (half == 0 && lane == 0) hopper::barrier_expect(address(me.s.known[turn.stage]), sizeof me.s.records[0]);
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int t = 2 * pair + lane / 16;
      char* const to = me.stage(turn.stage) + 16 * part;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        copy_async16(to + row_at(k, 4 * half + t), h + (token0 + t) * p.token_stride + k * p.stream_stride + column,
                     true);
      if (r != nullptr) copy_async16(to + row_at(4, 4 * half + t), r + (token0 + t) * p.sizes.d + column, true);
    }
    if (p.residual != nullptr && lane < 16)  // row lane % 4 of A
      copy_async16(me.before(turn.stage, 4 * half + lane / 4) + 4 * (lane % 4), p.residual + token0 * 16 + 4 * lane,
                   true);
    if (r != nullptr && lane >= 28)
      copy_async16(me.before(turn.stage, 4 * half + lane - 28) + 16, p.write + (token0 + lane - 28) * 4, true);
    copy_async_arrive(address(me.s.full[turn.stage]));
    turn.next(me.stages);
  }
}

/// v[0 … 2] becomes the sums over the token's four lanes of v[3q …].
__device__ __forceinline__ void fold(float (&v)[12], int q) {
  const bool high = (q & 2) != 0, odd = (q & 1) != 0;
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    const float send = high ? v[i] : v[i + 6], keep = high ? v[i + 6] : v[i];
    v[i] = keep + __shfl_xor_sync(0xffffffffU, send, 2);
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const float send = odd ? v[i] : v[i + 3], keep = odd ? v[i + 3] : v[i];
    v[i] = keep + __shfl_xor_sync(0xffffffffU, send, 1);
  }
}

/// `warp` of eight: columns 16·warp + 4q … + 3.
__device__ __forceinline__ void mix_tiles(const Place& me, int warp) {
  const int g = me.g, q = me.q, d = me.p.sizes.d, column = me.rank * kBlockColumns + 16 * warp + 4 * q;
  uint32_t weights[4][3][2];  // stream, products 8t + g, word: columns 4q + 2w and the next
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int t = 0; t < 3; ++t) {
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        const int64_t row = static_cast<int64_t>(i) * d + column + 2 * w;
        weights[i][t][w] =
            pack(mhc_weight(me.maps.parameters, row, 8 * t + g), mhc_weight(me.maps.parameters, row + 1, 8 * t + g));
      }
    }
  }
  Turn turn, place;
  bool used = false;  // the place of the sums has been filled before
  for (int tile = me.first; tile < me.tiles; tile += me.step) {
    wait(me.s.full[turn.stage], turn.phase);
    char* const rows = me.stage(turn.stage) + row_at(0, g) + 32 * warp + 8 * q;
    float maps[kMaps], gram[12] = {};  // the last two stay 0
#pragma unroll
    for (int i = 0; i < 5; ++i) {
      const float4 f = reinterpret_cast<const float4*>(me.before(turn.stage, g))[i];
      maps[4 * i] = f.x, maps[4 * i + 1] = f.y, maps[4 * i + 2] = f.z, maps[4 * i + 3] = f.w;
    }
    uint32_t in[2][5], h[2][4];
#pragma unroll
    for (int k = 0; k < 5; ++k) {
      const uint2 v = *reinterpret_cast<const uint2*>(rows + k * kRowStride);
      in[0][k] = v.x, in[1][k] = v.y;
    }
#pragma unroll
    for (int w = 0; w < 2; ++w) mix(in[w], maps, h[w], gram);
    // Products as [24 x 8 tokens]: the weights are the rows (16 and 8 of them), H' is the columns.
    float first[4] = {}, last[4] = {};
    bfloat* const out =
        static_cast<bfloat*>(me.p.h_out) + (static_cast<int64_t>(tile) * kTileTokens + g) * 4 * d + column;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint2 v = make_uint2(h[0][i], h[1][i]);
      *reinterpret_cast<uint2*>(rows + i * kRowStride) = v;
      *reinterpret_cast<uint2*>(out + i * d) = v;
      mma16(first, weights[i][0][0], weights[i][1][0], weights[i][0][1], weights[i][1][1], v.x, v.y);
      mma16(last, weights[i][2][0], 0, weights[i][2][1], 0, v.x, v.y);
    }
    arrive(me.s.mixed[turn.stage], me.lane);
    fold(gram, q);
    if (used) wait(me.s.taken[place.stage], place.phase ^ 1);
    float* const mine = me.s.parts[place.stage][warp];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float* const token = mine + (2 * q + j) * kSums + g;
      token[0] = first[j], token[8] = first[2 + j], token[16] = last[j];
    }
#pragma unroll
    for (int j = 0; j < 3; ++j) mine[g * kSums + kProducts + 3 * q + j] = gram[j];
    arrive(me.s.summed[place.stage], me.lane);
    turn.next(me.stages);
    place.next(kPlaces);
    used = used || place.stage == 0;
  }
}

/// The sum over `parts` of four floats from `from` on, a tile's sums apart.
__device__ __forceinline__ float4 sum_parts(const float* from, int parts) {
  float4 sum = *reinterpret_cast<const float4*>(from);
#pragma unroll
  for (int i = 1; i < parts; ++i) {
    const float4 v = *reinterpret_cast<const float4*>(from + i * kTileTokens * kSums);
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  return sum;
}

/// A tile's sums over the block's columns go to the block that makes its maps.
__device__ __forceinline__ void send(const Place& me) {
  Turn place;
  int i = 0;
  for (int tile = me.first; tile < me.tiles; tile += me.step, ++i) {
    wait(me.s.summed[place.stage], place.phase);
    const int slot = i / me.ranks & 1;
    for (int j = 4 * me.lane; j < kTileTokens * kSums; j += 128)
      send4(sum_parts(&me.s.parts[place.stage][0][j], kMixWarps), &me.s.arrived[slot][me.rank][j],
            address(me.s.inbox[slot]), static_cast<unsigned>(i % me.ranks));
    arrive(me.s.taken[place.stage], me.lane);
    place.next(kPlaces);
  }
}

}  // namespace siamese::kernels::ring
