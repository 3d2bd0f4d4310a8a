// A matrix product C = A·B of bf16 on Hopper in tiles of 128 rows by 256 columns, whose epilogue is woven into the
// products of the next tile: two warpgroups have 64 rows each, round a finished tile to bf16, and take its parts
// through the epilogue one by one while the tensor cores work on what follows.
//
// Why so wide: shared memory gives 128 bytes a cycle. Over 64 columns of k, wgmma reads B once every 64 rows and A
// once, and the copy engine writes both: for a tile of 128 × 176 (gemm_pingpong.cuh) 784 cycles of shared memory beside
// 704 of the tensor cores, for one of 128 × 256 1024 beside 1024, before what the epilogues stage.
#pragma once

#include "kernels/cuda/gemm_pingpong.cuh"
#include "kernels/cuda/hopper_product256.cuh"

namespace siamese::kernels {

constexpr int kWovenColumns = 256, kWovenHeld = kWovenColumns / 4;  // of a tile; registers that hold it in bf16
constexpr int kWovenPart = 8;                                       // of them for a part

/// Whether k has a step beside every part of the epilogue.
template <class Epilogue>
bool woven_serves(int64_t k) {
  return k / kDepth >= Epilogue::kParts;
}

/// Of a warpgroup: where it is in the ring, whose stages it has read.
template <class Epilogue>
struct WovenSteps {
  const PingpongMemory<Epilogue>& memory;
  int mine;
  uint32_t empty;
  int stage = 0, before = 0;
  uint32_t phase = 0;

  /// Two threads tell the two blocks, which both write here.
  __device__ __forceinline__ WovenSteps(const PingpongMemory<Epilogue>& memory_, int mine_)
      : memory(memory_), mine(mine_), empty(hopper::address_in(memory_.empty(0), threadIdx.x & 1)) {}
  __device__ __forceinline__ void release(int which) const {
    if (threadIdx.x % kGroup < 2) hopper::barrier_arrive_in_cluster(empty + which * 8);
  }
  /// Products of the k-th step get under way.
  __device__ __forceinline__ void begin(float (&c)[kWovenColumns / 2], int k) const {
    constexpr bool kColumnsFirst = Epilogue::kColumnsFirst;
    hopper::barrier_wait(memory.full(stage), phase);
    const uint64_t a = hopper::matrix_at(memory.a(stage) + mine * (kBytesA / 2), 16, 1024);
    const uint64_t b = hopper::matrix_at(memory.b(stage), kColumnsFirst ? kDepth * 128 : 16, 1024);
    hopper::products_begin();
#pragma unroll
    for (int i = 0; i < kDepth / 16; ++i)
      hopper::product<kColumnsFirst>(c, a + i * 2, b + i * (kColumnsFirst ? 128 : 2), k + i);
    hopper::products_commit();
  }
  /// Those of the step before have ended.
  __device__ __forceinline__ void settle(int k) {
    hopper::products_wait<1>();
    if (k > 0) release(before);
    before = stage;
    if (++stage == Epilogue::kStages) stage = 0, phase ^= 1;
  }
  __device__ __forceinline__ void settle_last() const {
    hopper::products_wait<0>();
    release(before);
  }
};

/// The next part's numbers come to the first registers: parts need no code of their own each.
__device__ __forceinline__ void move_up(uint32_t (&held)[kWovenHeld]) {
#pragma unroll
  for (int i = 0; i + kWovenPart < kWovenHeld; ++i) held[i] = held[i + kWovenPart];
}

/// All tiles of a warpgroup, of which there is at least one. Named barriers: 1, 2 the group itself, 3 the second
/// group's start. An epilogue may fetch what a part needs ahead, in registers.
template <class Epilogue>
__device__ __forceinline__ void weave(const PingpongShape& s, uint32_t rank, const typename Epilogue::Maps& maps,
                                      const PingpongMemory<Epilogue>& memory, int mine) {
  constexpr int kParts = Epilogue::kParts;
  const int tiles = s.pairs_m * s.tiles_n, first = blockIdx.x / 2, stride = gridDim.x / 2;
  WovenSteps<Epilogue> steps(memory, mine);
  typename Epilogue::Ahead ahead;
  uint32_t held[kWovenHeld] = {};
  PingpongTile last(s, rank, first);
  const auto finish = [&](int part) {
    Epilogue::finish(part, held, ahead, last, maps, memory, mine);
    if (part + 1 < kParts) Epilogue::fetch(part + 1, ahead, last, maps, mine);
  };
  // The second group begins a step later and stays behind: while one rounds its tile, the other one's products run.
  if (mine == 1) hopper::named_sync(3, 2 * kGroup);
#pragma unroll 1
  for (int t = first; t < tiles; t += stride) {
    float c[kWovenColumns / 2];
    int k = 0;
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) {
      const int end = (part + 1) * s.depth_steps / kParts;
      steps.begin(c, k);
      if (t != first) {
        finish(part);
      } else if (part == 0 && mine == 0) {
        hopper::named_arrive(3, 2 * kGroup);
      }
      move_up(held);
      steps.settle(k);
#pragma unroll 1
      for (++k; k < end; ++k) {
        steps.begin(c, k);
        steps.settle(k);
      }
    }
    last = PingpongTile(s, rank, t);
    Epilogue::fetch(0, ahead, last, maps, mine);
    steps.settle_last();
#pragma unroll
    for (int i = 0; i < kWovenHeld; ++i) held[Epilogue::place(i)] = hopper::pack(c[2 * i], c[2 * i + 1]);
  }
#pragma unroll 1
  for (int part = 0; part < kParts; ++part) {
    finish(part);
    move_up(held);
  }
  if (threadIdx.x % kGroup == 0) hopper::store_wait_read<0>();
}

template <class Epilogue>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kPingpongThreads, 1)
    woven_kernel(const PingpongShape s, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                 const __grid_constant__ typename Epilogue::Maps maps) {
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  const PingpongMemory<Epilogue> memory{hopper::shared_address(dynamic_bytes)};
  const int group = __shfl_sync(0xffffffffU, threadIdx.x / kGroup, 0);  // the same for a warp, as the compiler can see
  const uint32_t rank = cluster_rank();
  pingpong_prepare(memory, maps, a, b, 4);  // both groups, in either block
  if (group == 0) {
    hopper::leave_registers<40>();
    if (threadIdx.x == 0) pingpong_feed(s, rank, a, b, memory);
    if (threadIdx.x == 32) Epilogue::feed(s, rank, maps, memory);
    __syncwarp();
  } else {
    hopper::take_registers<232>();
    weave<Epilogue>(s, rank, maps, memory, group - 1);
  }
  cluster_barrier();  // no block leaves while the other one may still write to it
}

}  // namespace siamese::kernels
