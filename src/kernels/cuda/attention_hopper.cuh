// What the kernels of attention_hopper.h share. A persistent block has a warpgroup that feeds, by one thread, and two
// that compute (attention_at_once.cu has a third). An item of work is 128 rows that a block owns, 64 a warpgroup; the
// other side streams by in tiles through a ring of stages. Items come longest first, so that the last ones are short.
#pragma once

#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/exponential.cuh"
#include "kernels/cuda/hopper_rows.cuh"
#include "kernels/cuda/processors.h"

namespace siamese::kernels::attention {

constexpr int kGroup = 128, kThreads = 3 * kGroup, kOwned = 128, kHead = 64;
constexpr uint32_t kTile64 = 64 * kHead * 2, kTile128 = 2 * kTile64;  // bytes

struct Shape {
  int batch, heads, kv_heads, length, blocks, rows;  // blocks of 128 rows; rows of log_sums
  float scale, scale_log2;                           // c, and c·log2(e)
  int team = 0;                                      // of attention_share.cuh

  __device__ int group() const { return heads / kv_heads; }
  /// The last block of keys that a block of queries looks at.
  template <bool causal>
  __device__ int last(int block) const {
    return causal ? block : blocks - 1;
  }
};

/// Tiles of 64 queries.
__host__ __device__ inline int query_tiles(int length) { return (length + 63) / 64; }

/// How attention_at_once.cu works: `rows` heads side by side, each with a team of thread blocks; two memories for sums
/// a row, of `tiles` tiles of 64 queries.
struct AtOnce {
  int rows = 0, team = 4, tiles = 0;

  /// Tiles of a head that any member of a team has, at most: in every layer of blocks those of its first keys.
  uint32_t turns() const {
    int count = 0;
    for (int blocks = (tiles + 1) / 2; blocks > 0; blocks -= team)
      count += tiles - 2 * (blocks > team ? blocks - team : 0);
    return static_cast<uint32_t>(count);
  }
  int64_t counters() const { return (2LL * rows * tiles + 3) / 4 * 4; }
  int64_t values() const { return 2LL * rows * tiles * 64 * kHead; }
  int* added(const AttentionCuda& call) const { return static_cast<int*>(call.scratch); }
  float* sums(const AttentionCuda& call) const { return static_cast<float*>(call.scratch) + counters(); }
  /// OrderedAngles, of all rows up to a multiple of 128.
  int64_t angles() const { return (tiles + 1) / 2 * 128LL * kHead; }
  float4* angles(const AttentionCuda& call) const {
    return call.cos == nullptr ? nullptr : reinterpret_cast<float4*>(sums(call) + values());
  }
};

/// Barriers and stages that both sides go through in the same order.
struct Ring {
  uint32_t full, empty, memory, bytes;
  int stages;
  int at = 0;
  uint32_t phase = 0;

  __device__ uint32_t stage() const { return memory + at * bytes; }
  __device__ uint32_t filled() const { return full + at * 8; }
  __device__ void wait_filled() const { hopper::barrier_wait(filled(), phase); }
  __device__ void wait_empty() const { hopper::barrier_wait(empty + at * 8, phase ^ 1); }
  __device__ void advance() {
    if (++at == stages) at = 0, phase ^= 1;
  }
  /// One thread of a warpgroup, once all of it has read.
  __device__ void release(int which) const {
    if (threadIdx.x % kGroup == 0) hopper::barrier_arrive(empty + which * 8);
  }
};

/// Shared memory: `owned` bytes twice, then the ring's stages, then all barriers. Call from all threads.
struct Memory {
  Ring own, ring;

  /// `readers`: arrivals until what is owned may be overwritten.
  __device__ Memory(uint32_t base, uint32_t owned, uint32_t stage, int stages, int readers = 2) {
    const uint32_t barriers = base + 2 * owned + stage * stages;
    own = {barriers, barriers + 16, base, owned, 2};
    ring = {barriers + 32, barriers + 32 + stages * 8, base + 2 * owned, stage, stages};
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i)
        hopper::barrier_init(own.full + i * 8, 1), hopper::barrier_init(own.empty + i * 8, readers);
      for (int i = 0; i < stages; ++i)
        hopper::barrier_init(ring.full + i * 8, 1), hopper::barrier_init(ring.empty + i * 8, 2);
      hopper::barrier_init_done();
    }
    __syncthreads();
  }
  static constexpr uint32_t bytes(uint32_t owned, uint32_t stage, int stages) {
    return 2 * owned + stage * stages + 8 * (4 + 2 * stages);
  }
};

/// The two warpgroups take turns in handing products to the tensor cores: while one's run, the other one has the time
/// for its exponentials. Both take as many turns.
struct Turns {
  int mine;

  __device__ explicit Turns(int group) : mine(group) {
    if (mine == 1) hopper::named_arrive(3, 2 * kGroup);
  }
  __device__ void begin() const {
    hopper::named_sync(3 + mine, 2 * kGroup);
    hopper::products_begin();
  }
  __device__ void end() const { hopper::named_arrive(4 - mine, 2 * kGroup); }
};

/// 128 queries of a head, those with the most keys first.
struct QueryItem {
  int block, batch, head;

  __device__ QueryItem(const Shape& s, int index) {
    const int heads = s.batch * s.heads;
    block = s.blocks - 1 - index / heads;
    batch = index % heads / s.heads;
    head = index % s.heads;
  }
};

/// What the warpgroup wrote into shared memory leaves by `store`.
template <class Store>
__device__ __forceinline__ void send_off(int mine, const Store& store) {
  hopper::fence_for_copies();
  hopper::named_sync(1 + mine, kGroup);
  if (threadIdx.x % kGroup == 0) {
    store();
    hopper::store_commit();
  }
}
/// It has left: what the warpgroup owned in place `which` is free again.
__device__ __forceinline__ void has_left(Memory& memory, int which) {
  if (threadIdx.x % kGroup == 0) {
    hopper::store_wait_read<0>();
    memory.own.release(which);
  }
  __syncwarp();
}
/// The end of an item: what the warpgroup wrote over its own rows leaves by `store`, and its place is free again.
template <class Store>
__device__ __forceinline__ void hand_over(Memory& memory, int mine, const Store& store) {
  send_off(mine, store);
  has_left(memory, memory.own.at);
  memory.own.advance();
}

/// The block's warpgroups in their roles: feed() by one thread, compute(group) by two warpgroups.
template <class Feed, class Compute>
__device__ __forceinline__ void in_roles(const Feed& feed, const Compute& compute) {
  const int group = __shfl_sync(0xffffffffU, threadIdx.x / kGroup, 0);
  if (group == 0) {
    hopper::leave_registers<40>();
    if (threadIdx.x == 0) feed();
  } else {
    hopper::take_registers<232>();
    compute(group - 1);
  }
}

// In attention_launch.cu:
/// A tensor as boxes of `box_rows` rows of one head.
bool make_boxes(CUtensorMap* map, const AttentionTensor& t, int heads, const AttentionCuda& call, int box_rows);
Shape shape_of(const AttentionCuda& call);
cudaError_t launch_forward(const AttentionCuda& call, cudaStream_t stream);
cudaError_t launch_of_queries(const AttentionCuda& call, cudaStream_t stream);
cudaError_t launch_of_keys(const AttentionCuda& call, cudaStream_t stream);
/// Bytes of shared memory that one pass takes.
uint32_t at_once_bytes(const AtOnce& plan, bool normed, bool lean);
/// `plan` of this call; added[] is zero.
cudaError_t launch_at_once(const AttentionCuda& call, const AtOnce& plan, cudaStream_t stream);

/// Blocks of a persistent kernel, with its shared memory allowed.
template <class Kernel>
cudaError_t prepare(Kernel kernel, uint32_t bytes, int items, int* blocks) {
  int processors = 0;
  if (const cudaError_t e = count_processors(&processors); e != cudaSuccess) return e;
  *blocks = items < processors ? items : processors;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

}  // namespace siamese::kernels::attention
