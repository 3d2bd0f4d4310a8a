// g_V = Pᵀ·G and g_K = c·dSᵀ·Q by columns, dS = P⊙(G·Vᵀ - D). A block owns 128 keys and values of a head; the queries
// of all heads that share them, with their gradients, sums and D, stream by in tiles of 64, from the diagonal (or the
// start) on.
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/attention_hopper.cuh"

namespace siamese::kernels::attention {
namespace {

constexpr int kStages = 9;
constexpr uint32_t kNumbers = 64 * 4, kStage = 2 * kTile64 + 1024;  // Q, G, then 64 log sums and 64 dots
constexpr uint32_t kBytes = Memory::bytes(2 * kTile128, kStage, kStages);

struct Item {
  int block, batch, head;  // of keys

  __device__ Item(const Shape& s, int index) {
    const int heads = s.batch * s.kv_heads;
    block = index / heads;
    batch = index % heads / s.kv_heads;
    head = index % s.kv_heads;
  }
};

struct Maps {
  CUtensorMap q, k, v, g, g_k, g_v;
};

__device__ __forceinline__ int query_tiles(const Shape& s) { return (s.length + 63) / 64; }

template <bool causal>
__device__ __forceinline__ void feed(const Shape& s, const Maps& maps, const float* log_sums, const float* dots,
                                     Memory& memory) {
  for (int i = blockIdx.x; i < s.blocks * s.batch * s.kv_heads; i += gridDim.x) {
    const Item item(s, i);
    const uint32_t own = memory.own.stage(), filled = memory.own.filled();
    memory.own.wait_empty();
    hopper::barrier_expect(filled, 2 * kTile128);
    hopper::load_box(maps.k, own, filled, item.head * kHead, item.block * kOwned, item.batch);
    hopper::load_box(maps.v, own + kTile128, filled, item.head * kHead, item.block * kOwned, item.batch);
    memory.own.advance();
    for (int head = item.head * s.group(); head < (item.head + 1) * s.group(); ++head)
      for (int t = causal ? 2 * item.block : 0; t < query_tiles(s); ++t) {
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

/// Two neighbouring numbers of a stage.
__device__ __forceinline__ float2 numbers_at(uint32_t address) {
  float2 f;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(f.x), "=f"(f.y) : "r"(address));
  return f;
}

template <bool causal>
__device__ __forceinline__ void differentiate(const Shape& shape, const Maps& maps, Memory& memory, const float* cos,
                                              const float* sin, int mine) {
  const Lane lane;
  const Turns turns(mine);
  Ring& ring = memory.ring;
  for (int i = blockIdx.x; i < shape.blocks * shape.batch * shape.kv_heads; i += gridDim.x) {
    const Item item(shape, i);
    uint32_t k[16], v[16], p[16] = {}, ds[16] = {};
    float g_k[32], g_v[32];
    memory.own.wait_filled();
    const uint32_t own = memory.own.stage() + mine * kTile64;
    load_rows(k, own, lane);
    load_rows(v, own + kTile128, lane);
    // Each turn: Sᵀ and V·Gᵀ of this tile, and Pᵀ·G and dSᵀ·Q of the last one, at first zero times anything.
    uint32_t last_q = own, last_g = own + kTile128;  // this group's keys and values, until there is a tile
    int stage = -1;
    const int first = causal ? 2 * item.block : 0, tiles = query_tiles(shape);
    for (int n = 0, t = first; n < shape.group() * (tiles - first); ++n, t = t + 1 < tiles ? t + 1 : first) {
      ring.wait_filled();
      if (causal && t < first + mine) {  // these queries look at nothing of ours
        turns.begin();
        turns.end();
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
      times<4>(g_v, p, last_g, stage >= 0);
      hopper::products_commit();
      times<4>(g_k, ds, last_q, stage >= 0);
      hopper::products_commit();
      turns.end();
      hopper::products_wait<3>();
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 shift = numbers_at(numbers + 32 * j);
#pragma unroll
        for (int c = 0; c < 4; ++c)
          s[4 * j + c] = hopper::exp2_fast(fmaf(s[4 * j + c], shape.scale_log2, -((c & 1) ? shift.y : shift.x)));
      }
      if (causal && t == first + mine) {  // the diagonal
#pragma unroll
        for (int c = 0; c < 32; ++c)
          if (lane.row + (c >> 1 & 1) * 8 > 8 * (c / 4) + lane.column + (c & 1)) s[c] = 0.f;
      }
      hopper::products_wait<2>();
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 dot = numbers_at(numbers + kNumbers + 32 * j);
#pragma unroll
        for (int c = 0; c < 4; ++c) dp[4 * j + c] = s[4 * j + c] * (dp[4 * j + c] - ((c & 1) ? dot.y : dot.x));
      }
      hopper::products_wait<1>();
      hopper::hold(p);
      pack_rows<32>(p, s);
      hopper::products_wait<0>();
      hopper::hold(ds);
      pack_rows<32>(ds, dp);
      if (stage >= 0) ring.release(stage);
      last_q = q, last_g = q + kTile64, stage = ring.at;
      ring.advance();
    }
    turns.begin();
    times<4>(g_v, p, last_g, stage >= 0);
    times<4>(g_k, ds, last_q, stage >= 0);
    hopper::products_commit();
    turns.end();
    hopper::products_wait<0>();
    hopper::hold(p);
    hopper::hold(ds);
    if (stage >= 0) ring.release(stage);
    const int row = item.block * kOwned + mine * 64;
    if (cos != nullptr) turn_back(g_k, lane, row + lane.row, shape.length, cos, sin);
    store_rows(own, g_k, lane, shape.scale, shape.scale);
    store_rows(own + kTile128, g_v, lane, 1.f, 1.f);
    hand_over(memory, mine, [&] {
      hopper::store_box(maps.g_k, own, item.head * kHead, row, item.batch);
      hopper::store_box(maps.g_v, own + kTile128, item.head * kHead, row, item.batch);
    });
  }
}

template <bool causal>
__global__ void __launch_bounds__(kThreads, 1)
    of_keys_kernel(const Shape shape, const __grid_constant__ Maps maps, const float* log_sums, const float* dots,
                   const float* cos, const float* sin) {
  extern __shared__ __align__(1024) uint8_t dynamic_bytes[];
  Memory memory(hopper::shared_address(dynamic_bytes), 2 * kTile128, kStage, kStages);
  in_roles([&] { feed<causal>(shape, maps, log_sums, dots, memory); },
           [&](int mine) { differentiate<causal>(shape, maps, memory, cos, sin, mine); });
}

}  // namespace

cudaError_t launch_of_keys(const AttentionCuda& call, cudaStream_t stream) {
  Maps maps;
  if (!make_boxes(&maps.q, call.q, call.heads, call, 64) || !make_boxes(&maps.g, call.g, call.heads, call, 64) ||
      !make_boxes(&maps.k, call.k, call.kv_heads, call, 128) ||
      !make_boxes(&maps.v, call.v, call.kv_heads, call, 128) ||
      !make_boxes(&maps.g_k, call.g_k, call.kv_heads, call, 64) ||
      !make_boxes(&maps.g_v, call.g_v, call.kv_heads, call, 64))
    return cudaErrorInvalidValue;
  const Shape shape = shape_of(call);
  int blocks = 0;
  const auto kernel = call.causal ? of_keys_kernel<true> : of_keys_kernel<false>;
  if (const cudaError_t e = prepare(kernel, kBytes, shape.blocks * shape.batch * shape.kv_heads, &blocks);
      e != cudaSuccess)
    return e;
  kernel<<<blocks, kThreads, kBytes, stream>>>(shape, maps, call.log_sums, call.dots, call.cos, call.sin);
  return cudaGetLastError();
}

}  // namespace siamese::kernels::attention
