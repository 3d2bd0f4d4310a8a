// The second half of mhc's forward step in one pass (roles: mhc_ring.cuh): what a tile is read with, from its sums over
// the row, the reading, and the kernel.
#pragma once

#include "kernels/cuda/mhc_cluster_mix.cuh"

namespace siamese::kernels::ring {

/// Every ranks-th tile of the cluster: what its tokens are read with goes to all blocks, L and both ρ to memory. Four
/// lanes share a token.
__device__ __forceinline__ void weigh_tiles(const Place& me) {
  const MhcForwardCuda& p = me.p;
  const int g = me.g, q = me.q, lane = me.lane, ranks = me.ranks;
  const float s_read = to_float(*static_cast<const bfloat*>(p.parameters.s[0])),
              b_read = to_float(static_cast<const bfloat*>(p.parameters.b[0])[q]);
  const unsigned bytes = static_cast<unsigned>(ranks * kTileTokens * kSums * 4);
  if (lane == 0) {
    hopper::barrier_expect(address(me.s.inbox[0]), bytes);
    hopper::barrier_expect(address(me.s.inbox[1]), bytes);
  }
  int i = me.rank;
  for (int tile = me.first + i * me.step; tile < me.tiles; tile += ranks * me.step, i += ranks) {
    const int64_t token = static_cast<int64_t>(tile) * kTileTokens + g;
    const int slot = i / ranks & 1, stage = i % me.stages;
    barrier_wait_cluster(address(me.s.inbox[slot]), static_cast<unsigned>(i / ranks / 2 & 1));
    for (int j = 4 * lane; j < kTileTokens * kSums; j += 128)
      *reinterpret_cast<float4*>(me.s.total + j) = sum_parts(&me.s.arrived[slot][0][j], ranks);
    __syncwarp();
    if (lane == 0) hopper::barrier_expect(address(me.s.inbox[slot]), bytes);
    const float* const sums = me.s.total + g * kSums;
    const float4 last = *reinterpret_cast<const float4*>(sums + 8 + 4 * q);
    const float read = sums[q], write = sums[4 + q];
    const Reading reading(p, sums, s_read, b_read, lane);
    __syncwarp();  // `total` has been read
    const float rho = reading.rho;
    const float4 weights = make_float4(rho * reading.a[0], rho * reading.a[1], rho * reading.a[2], rho * reading.a[3]);
    for (int to = q; to < ranks; to += 4)
      send4(weights, me.s.records[stage][g], address(me.s.known[stage]), static_cast<unsigned>(to));

    const float map_rho = reading.map_rho;
    float* const saved = p.saved + token * (kProducts + 4);
    saved[q] = map_rho * read, saved[4 + q] = map_rho * write;
    *reinterpret_cast<float4*>(saved + 8 + 4 * q) =
        make_float4(map_rho * last.x, map_rho * last.y, map_rho * last.z, map_rho * last.w);
    if (q == 0) *reinterpret_cast<float4*>(saved + kProducts) = make_float4(map_rho, rho, 0.f, 0.f);
  }
}

/// `warp` of four: tokens 2·warp and the next, half a warp each, 8 columns a lane.
__device__ __forceinline__ void read_tiles(const Place& me, int warp) {
  const int token = 2 * warp + me.lane / 16, part = me.lane % 16, d = me.p.sizes.d;
  const int column = me.rank * kBlockColumns + 8 * part;
  float gain[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    gain[i] = me.p.gain != nullptr ? to_float(static_cast<const bfloat*>(me.p.gain)[column + i]) : 1.f;
  Turn turn;
  for (int tile = me.first; tile < me.tiles; tile += me.step) {
    barrier_wait_cluster(address(me.s.known[turn.stage]), turn.phase);
    wait(me.s.mixed[turn.stage], turn.phase);
    const char* const rows = me.stage(turn.stage) + row_at(0, token) + 16 * part;
    const float4 all = *reinterpret_cast<const float4*>(me.s.records[turn.stage][token]);
    const float a[4] = {all.x, all.y, all.z, all.w};  // times ρ
    uint4 h[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) h[i] = *reinterpret_cast<const uint4*>(rows + i * kRowStride);
    arrive(me.s.free[turn.stage], me.lane);
    const int64_t row = static_cast<int64_t>(tile) * kTileTokens + token;
    bfloat* const out = static_cast<bfloat*>(me.p.h_out) + row * 4 * d + column;
#pragma unroll
    for (int i = 0; i < 4; ++i) *reinterpret_cast<uint4*>(out + i * d) = h[i];
    Words z;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      float v[2] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t two = words(h[i]).w[w];
        v[0] += a[i] * low(two), v[1] += a[i] * high(two);
      }
      z.w[w] = pack(v[0] * gain[2 * w], v[1] * gain[2 * w + 1]);
    }
    *reinterpret_cast<uint4*>(static_cast<bfloat*>(me.p.z) + row * d + column) = vector(z);
    turn.next(me.stages);
  }
}

__global__ void __launch_bounds__(kThreads, 1) mhc_cluster_kernel(const MhcForwardCuda p, int stages) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char ring_memory[];
  const Place me(p, ring_memory, stages);
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      hopper::barrier_init(address(me.s.full[i]), 32 * kAskWarps);
      hopper::barrier_init(address(me.s.mixed[i]), kTeamWarps);
      hopper::barrier_init(address(me.s.known[i]), 1);
      hopper::barrier_init(address(me.s.free[i]), kReadWarps);
    }
    for (const uint64_t& inbox : me.s.inbox) hopper::barrier_init(address(inbox), 1);
    for (int i = 0; i < kPlaces; ++i) {
      hopper::barrier_init(address(me.s.summed[i]), kTeamWarps);
      hopper::barrier_init(address(me.s.taken[i]), 1);
    }
    hopper::barrier_init_done();
  }
  // Without a map the streams stay: the identity, and nothing written.
  if (p.residual == nullptr || p.r == nullptr) {
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < stages * kTileTokens * kMaps; i += kThreads)
      me.before(i / kMaps / kTileTokens, i / kMaps % kTileTokens)[i % kMaps] =
          i % kMaps < 16 && i % kMaps % 5 == 0 ? 1.f : 0.f;
    for (int i = thread; i < stages * kRowsBytes / 4; i += kThreads)
      reinterpret_cast<uint32_t*>(me.stage(i / (kRowsBytes / 4)))[i % (kRowsBytes / 4)] = 0;
  }
  cluster_barrier();
  constexpr int kRead = kTeams * kTeamWarps, kAsk = kRead + kReadWarps, kSend = kAsk + kAskWarps;
  if (me.warp < kRead) {
    mix_tiles(me, me.warp);
  } else if (me.warp < kAsk) {
    read_tiles(me, me.warp - kRead);
  } else if (me.warp < kSend) {
    ask(me, me.warp - kAsk);
  } else if (me.warp == kSend) {
    send(me);
  } else {
    weigh_tiles(me);
  }
  __syncwarp();
  cluster_barrier();  // nobody leaves while others may still send to it
#endif
}

}  // namespace siamese::kernels::ring
