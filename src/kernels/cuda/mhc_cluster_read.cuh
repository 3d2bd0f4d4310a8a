// The second half of mhc's forward step in one launch (roles: mhc_ring.cuh): the maps of a tile, what is read with
// them, and the kernel. Four lanes make a token's maps: lane q has row `to` = q of the residual map, and read and write
// map q.
#pragma once

#include "kernels/cuda/mhc_cluster_mix.cuh"

namespace siamese::kernels::ring {

/// b and s as lane q needs them.
struct LaneParameters {
  float b_read, b_write, b_residual[4], s[3];
  __device__ LaneParameters(const MhcParametersCuda& p, int q) {
    const auto at = [](const void* from, int i) { return to_float(static_cast<const bfloat*>(from)[i]); };
    b_read = at(p.b[0], q), b_write = at(p.b[1], q);
#pragma unroll
    for (int j = 0; j < 4; ++j) b_residual[j] = at(p.b[2], 4 * q + j);
#pragma unroll
    for (int i = 0; i < 3; ++i) s[i] = at(p.s[i], 0);
  }
};

/// m [from] of the four lanes becomes Sinkhorn of exp(m) (kernels/mhc_maps.h); the sums over `to` go through shuffles.
__device__ __forceinline__ void sinkhorn_by_lanes(float (&m)[4]) {
  const auto other = [](float v, int mask) { return __shfl_xor_sync(0xffffffffU, v, mask); };
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float largest = fmaxf(m[j], other(m[j], 1));
    largest = fmaxf(largest, other(largest, 2));
    m[j] = expf(m[j] - largest);
  }
#pragma unroll 1
  for (int round = 0; round < kSinkhornDivisions; round += 2) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float sum = m[j] + other(m[j], 1);
      sum += other(sum, 2);
      m[j] *= reciprocal(sum);
    }
    const float inverse = reciprocal((m[0] + m[1]) + (m[2] + m[3]));
#pragma unroll
    for (int j = 0; j < 4; ++j) m[j] *= inverse;
  }
}

/// Every ranks-th tile of the cluster: what its tokens are read with goes to all blocks, the maps to memory.
__device__ __forceinline__ void make_maps(const Place& me) {
  const MhcForwardCuda& p = me.p;
  const int g = me.g, q = me.q, lane = me.lane, ranks = me.ranks;
  const LaneParameters w(me.maps.parameters, q);
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
    const Reading reading(p, sums, w.s[0], w.b_read, lane);
    __syncwarp();  // `total` has been read
    const float4 weights = make_float4(reading.a[0], reading.a[1], reading.a[2], reading.a[3]);
    for (int to = q; to < ranks; to += 4) {  // a token's lanes share the blocks
      float* const record = me.s.records[stage][g];
      send4(weights, record, address(me.s.known[stage]), static_cast<unsigned>(to));
      send4(make_float4(reading.rho, 0.f, 0.f, 0.f), record + 4, address(me.s.known[stage]), static_cast<unsigned>(to));
    }

    const float map_rho = reading.map_rho;
    float* const saved = p.saved + token * (kProducts + 4);
    float m[4] = {map_rho * last.x, map_rho * last.y, map_rho * last.z, map_rho * last.w};
    saved[q] = map_rho * read, saved[4 + q] = map_rho * write;
    *reinterpret_cast<float4*>(saved + 8 + 4 * q) = make_float4(m[0], m[1], m[2], m[3]);
    if (q == 0) *reinterpret_cast<float4*>(saved + kProducts) = make_float4(map_rho, reading.rho, 0.f, 0.f);
    me.maps.write[token * 4 + q] = 2.f * sigmoid(w.s[1] * (map_rho * write) + w.b_write);
#pragma unroll
    for (int j = 0; j < 4; ++j) m[j] = w.s[2] * m[j] + w.b_residual[j];
    sinkhorn_by_lanes(m);
    *reinterpret_cast<float4*>(me.maps.residual + token * 16 + 4 * q) = make_float4(m[0], m[1], m[2], m[3]);
  }
}

/// `warp` of four: columns 32·warp + {0, 16} + 4q … + 3.
__device__ __forceinline__ void read_tiles(const Place& me, int warp) {
  const int g = me.g, column = me.rank * kBlockColumns + 32 * warp + 4 * me.q;
  float gain[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    gain[i] =
        me.p.gain != nullptr ? to_float(static_cast<const bfloat*>(me.p.gain)[column + i % 4 + 16 * (i / 4)]) : 1.f;
  Turn turn;
  for (int tile = me.first; tile < me.tiles; tile += me.step) {
    barrier_wait_cluster(address(me.s.known[turn.stage]), turn.phase);
    wait(me.s.mixed[turn.stage], turn.phase);
    const char* const rows = me.stage(turn.stage) + row_at(0, g) + 64 * warp + 8 * me.q;
    const float* const record = me.s.records[turn.stage][g];
    const float4 all = *reinterpret_cast<const float4*>(record);
    const float a[4] = {all.x, all.y, all.z, all.w}, rho = record[4];
    uint2 h[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) h[half][i] = *reinterpret_cast<const uint2*>(rows + 32 * half + i * kRowStride);
    }
    arrive(me.s.free[turn.stage], me.lane);
    bfloat* const z =
        static_cast<bfloat*>(me.p.z) + (static_cast<int64_t>(tile) * kTileTokens + g) * me.p.sizes.d + column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        v[0] += a[i] * low(h[half][i].x), v[1] += a[i] * high(h[half][i].x);
        v[2] += a[i] * low(h[half][i].y), v[3] += a[i] * high(h[half][i].y);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] *= rho * gain[4 * half + i];
      *reinterpret_cast<uint2*>(z + 16 * half) = make_uint2(pack(v[0], v[1]), pack(v[2], v[3]));
    }
    turn.next(me.stages);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    mhc_cluster_kernel(const MhcForwardCuda p, const MhcMapsCuda maps, int stages) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char ring_memory[];
  const Place me(p, maps, ring_memory, stages);
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      hopper::barrier_init(address(me.s.full[i]), 32 * kAskWarps);
      hopper::barrier_init(address(me.s.mixed[i]), kMixWarps);
      hopper::barrier_init(address(me.s.known[i]), 1);
      hopper::barrier_init(address(me.s.free[i]), kReadWarps);
    }
    for (const uint64_t& inbox : me.s.inbox) hopper::barrier_init(address(inbox), 1);
    for (int i = 0; i < kPlaces; ++i) {
      hopper::barrier_init(address(me.s.summed[i]), kMixWarps);
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
  constexpr int kRead = kMixWarps, kAsk = kRead + kReadWarps, kSend = kAsk + kAskWarps;
  if (me.warp < kRead) {
    mix_tiles(me, me.warp);
  } else if (me.warp < kAsk) {
    read_tiles(me, me.warp - kRead);
  } else if (me.warp < kSend) {
    ask(me, me.warp - kAsk);
  } else if (me.warp == kSend) {
    send(me);
  } else {
    make_maps(me);
  }
  __syncwarp();
  cluster_barrier();  // nobody leaves while others may still send to it
#endif
}

}  // namespace siamese::kernels::ring
