// The first half of mhc's forward step in one pass (roles: mhc_ring.cuh): rows come, are mixed, and their sums over
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

/// `warp` of eight: its team's tiles, columns 32·(warp mod 4) + {0, 16} + 4q … + 3.
__device__ __forceinline__ void mix_tiles(const Place& me, int warp) {
  const int team = warp / kTeamWarps, member = warp % kTeamWarps, g = me.g, q = me.q, d = me.p.sizes.d;
  const int column = me.rank * kBlockColumns + 32 * member + 4 * q;
  uint32_t weights[2][4][3][2];  // half, stream, products 8t + g, word: columns 16·half + 4q + 2w and the next
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int t = 0; t < 3; ++t) {
#pragma unroll
        for (int w = 0; w < 2; ++w) {
          const int64_t row = static_cast<int64_t>(i) * d + column + 16 * half + 2 * w;
          weights[half][i][t][w] =
              pack(mhc_weight(me.p.parameters, row, 8 * t + g), mhc_weight(me.p.parameters, row + 1, 8 * t + g));
        }
      }
    }
  }
  Turn turn, place;
  turn.next(me.stages, team), place.next(kPlaces, team);
  int i = team;
  for (int tile = me.first + team * me.step; tile < me.tiles; tile += kTeams * me.step, i += kTeams) {
    wait(me.s.full[turn.stage], turn.phase);
    char* const rows = me.stage(turn.stage) + row_at(0, g) + 64 * member + 8 * q;
    uint32_t h[2][2][4];  // half, word, stream
    {
      float maps[kMaps];
#pragma unroll
      for (int k = 0; k < 5; ++k) {
        const float4 f = reinterpret_cast<const float4*>(me.before(turn.stage, g))[k];
        maps[4 * k] = f.x, maps[4 * k + 1] = f.y, maps[4 * k + 2] = f.z, maps[4 * k + 3] = f.w;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t in[2][5];
#pragma unroll
        for (int k = 0; k < 5; ++k) {
          const uint2 v = *reinterpret_cast<const uint2*>(rows + 32 * half + k * kRowStride);
          in[0][k] = v.x, in[1][k] = v.y;
        }
#pragma unroll
        for (int w = 0; w < 2; ++w) mix(in[w], maps, h[half][w]);
#pragma unroll
        for (int k = 0; k < 4; ++k)
          *reinterpret_cast<uint2*>(rows + 32 * half + k * kRowStride) = make_uint2(h[half][0][k], h[half][1][k]);
      }
    }
    arrive(me.s.mixed[turn.stage], me.lane);
    // Products as [24 x 8 tokens]: the weights are the rows (16 and 8 of them), H' is the columns.
    float first[4] = {}, last[4] = {};
    Gram gram;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      gram.add(h[half][0], h[half][1]);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const auto& w = weights[half][k];
        mma16(first, w[0][0], w[1][0], w[0][1], w[1][1], h[half][0][k], h[half][1][k]);
        mma16(last, w[2][0], 0, w[2][1], 0, h[half][0][k], h[half][1][k]);
      }
    }
    if (i >= kPlaces) wait(me.s.taken[place.stage], place.phase ^ 1);
    float* const mine = me.s.parts[place.stage][member];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float* const token = mine + (2 * q + j) * kSums + g;
      token[0] = first[j], token[8] = first[2 + j], token[16] = last[j];
    }
    gram.store(mine + g * kSums + kProducts, g, q);
    arrive(me.s.summed[place.stage], me.lane);
    turn.next(me.stages, kTeams);
    place.next(kPlaces, kTeams);
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

/// A tile's sums over the block's columns go to the block that makes a and ρ of them.
__device__ __forceinline__ void send(const Place& me) {
  constexpr int kFours = kTileTokens * kSums / 4;
  Turn place;
  int i = 0;
  for (int tile = me.first; tile < me.tiles; tile += me.step, ++i) {
    wait(me.s.summed[place.stage], place.phase);
    const int slot = i / me.ranks & 1;
    float4 sums[(kFours + 31) / 32];
#pragma unroll
    for (int k = 0; k < (kFours + 31) / 32; ++k)
      if (32 * k + me.lane < kFours)
        sums[k] = sum_parts(&me.s.parts[place.stage][0][4 * (32 * k + me.lane)], kTeamWarps);
    arrive(me.s.taken[place.stage], me.lane);
#pragma unroll
    for (int k = 0; k < (kFours + 31) / 32; ++k)
      if (32 * k + me.lane < kFours)
        send4(sums[k], &me.s.arrived[slot][me.rank][4 * (32 * k + me.lane)], address(me.s.inbox[slot]),
              static_cast<unsigned>(i % me.ranks));
    place.next(kPlaces);
  }
}

}  // namespace siamese::kernels::ring
