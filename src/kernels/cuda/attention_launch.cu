#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention_lanes.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace attention {
namespace {

constexpr int kDotThreads = 256, kDotsEach = 4;
static_assert(kOwned * 8 % (kDotThreads * kDotsEach) == 0, "a block has rows of one sample, and none past the last");

/// D = Σ G⊙O of a head: eight lanes a head, which lie side by side in memory; 0 past the end. Also the logarithms of
/// the sums, where another library's forward pass left them, zeros to count from, and the angles in order. From the
/// last row to the first: of G, which was written just now, the end is still in L2, and attention wants the beginning.
__global__ void __launch_bounds__(kDotThreads)
    dots_kernel(const bfloat* g, const bfloat* o, int64_t g_stride, int64_t o_stride, const Shape s,
                const float* natural, float* log_sums, float* dots, int* counters, int64_t counter_count,
                const AngleTables tables, float4* angles) {
  const int64_t thread = (static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x) * kDotThreads + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.y) * gridDim.x * kDotThreads;
  for (int64_t i = thread; i < counter_count; i += threads) counters[i] = 0;
  if (angles != nullptr)
    for (int64_t i = thread; i < s.rows * (kHead / 4); i += threads)
      angles[i] = angles_of(  // OrderedAngles::index the other way
          tables.cos, tables.sin, s.length, static_cast<int>(i / 256 * 16), static_cast<int>(i % 32),
          static_cast<int>(i / 32 % 8));
  const int lane = threadIdx.x % 8;
  const unsigned first = (gridDim.x - 1 - blockIdx.x) * (kDotThreads * kDotsEach) + threadIdx.x;  // of a sample
  for (int batch = s.batch - 1 - static_cast<int>(blockIdx.y); batch >= 0; batch -= static_cast<int>(gridDim.y)) {
    Raw8<bfloat> a[kDotsEach], b[kDotsEach];
#pragma unroll
    for (int i = 0; i < kDotsEach; ++i) {
      const unsigned of_sample = (first + i * kDotThreads) / 8, row = of_sample / s.heads, head = of_sample % s.heads;
      const int64_t place = static_cast<int64_t>(batch) * s.length + row, column = head * kHead + lane * 8;
      const bool there = row < static_cast<unsigned>(s.length);
      a[i] = fetch8_if(there, g + place * g_stride + column);
      b[i] = fetch8_if(there, o + place * o_stride + column);
    }
#pragma unroll
    for (int i = 0; i < kDotsEach; ++i) {
      const unsigned of_sample = (first + i * kDotThreads) / 8, row = of_sample / s.heads, head = of_sample % s.heads;
      const Float8 x = widen(a[i]), y = widen(b[i]);
      float sum = 0.f;
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += x.v[j] * y.v[j];
#pragma unroll
      for (int j = 1; j < 8; j *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, j);
      if (lane != 0) continue;
      const int64_t of_head = static_cast<int64_t>(batch) * s.heads + head;
      dots[of_head * s.rows + row] = sum;
      if (natural != nullptr)
        log_sums[of_head * s.rows + row] = row < static_cast<unsigned>(s.length)
                                               ? natural[of_head * s.length + row] * static_cast<float>(M_LOG2E)
                                               : INFINITY;
    }
  }
}

constexpr int64_t kFitsL2 = 34'000'000;
constexpr int kMostBlocks = 128;  // turns fit into what shared memory is left, and into bytes

/// No rows where two passes are taken: attention of other kinds, too long, or too few heads for teams to keep the GPU
/// busy. Larger teams for longer rows, so that Q, G and the sums (512 bytes a query) of all heads at work stay in L2.
/// Time in tiles of five and of seven products: a team shares the blocks·(blocks + 1) tiles of a head.
AtOnce plan_at_once(const AttentionCuda& call) {
  const int64_t blocks = attention_rows(call.length) / kOwned, heads = static_cast<int64_t>(call.batch) * call.heads;
  AtOnce plan;
  plan.tiles = query_tiles(call.length);
  int processors = 0;
  if (!call.causal || call.heads != call.kv_heads || blocks > kMostBlocks ||
      count_processors(&processors) != cudaSuccess)
    return plan;
  while (plan.team < 16 && int64_t{512} * call.length * (processors / plan.team) > kFitsL2) plan.team *= 2;
  const int64_t rows = std::min<int64_t>(processors / plan.team, heads);
  if (rows == 0) return plan;
  const int64_t once = 5 * ((heads + rows - 1) / rows) * std::max(2 * blocks, blocks * (blocks + 1) / plan.team);
  const int64_t twice = 7 * std::max(2 * blocks, heads * blocks * (blocks + 1) / processors);
  if (once <= twice) plan.rows = static_cast<int>(rows);
  return plan;
}

}  // namespace

bool make_boxes(CUtensorMap* map, const AttentionTensor& t, int heads, const AttentionCuda& call, int box_rows) {
  return make_map3(map, t.data, call.batch, call.length, heads * kHead, t.stride, box_rows, kHead);
}

Shape shape_of(const AttentionCuda& call) {
  const int rows = static_cast<int>(attention_rows(call.length));
  return {call.batch,    call.heads, call.kv_heads, call.length,
          rows / kOwned, rows,       call.scale,    static_cast<float>(call.scale * M_LOG2E)};
}

}  // namespace attention

int64_t attention_rows(int64_t length) { return (length + 127) / 128 * 128; }

bool attention_hopper_serves() { return hopper_serves(); }

cudaError_t attention_forward_hopper(const AttentionCuda& call, cudaStream_t stream) {
  return attention::launch_forward(call, stream);
}

int64_t attention_scratch(const AttentionCuda& call) {
  const attention::AtOnce plan = attention::plan_at_once(call);
  return plan.rows == 0 ? 0 : 4 * (plan.counters() + plan.values() + plan.angles());
}

int attention_gain_parts(const AttentionCuda& call) {
  constexpr uint32_t most = 227 * 1024;  // long rows on a small part of a GPU need more
  const attention::AtOnce plan = attention::plan_at_once(call);
  const bool counts = int64_t{3} * call.heads * call.batch * call.length <= INT32_MAX;
  return counts && attention::at_once_bytes(plan, true, call.lean) <= most ? plan.rows * plan.team : 0;
}

cudaError_t attention_backward_hopper(const AttentionCuda& call, cudaStream_t stream) {
  using namespace attention;
  const Shape shape = shape_of(call);
  const AtOnce plan = plan_at_once(call);
  const bool once = plan.rows > 0 && call.scratch != nullptr;
  const int64_t threads = static_cast<int64_t>(shape.rows) * shape.heads * 8;
  constexpr int kOfBlock = kDotThreads * kDotsEach;
  const dim3 grid(static_cast<unsigned>((threads + kOfBlock - 1) / kOfBlock),
                  static_cast<unsigned>(std::min(shape.batch, 65535)));
  if (threads > INT32_MAX || (call.rho != nullptr && !once)) return cudaErrorInvalidValue;
  dots_kernel<<<grid, kDotThreads, 0, stream>>>(
      static_cast<const bfloat*>(call.g.data), static_cast<const bfloat*>(call.out.data), call.g.stride,
      call.out.stride, shape, call.natural, call.log_sums, call.dots, plan.added(call), once ? plan.counters() : 0,
      AngleTables{call.cos, call.sin, call.length}, once ? plan.angles(call) : nullptr);
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return e;
  if (once) {
    const cudaError_t e = launch_at_once(call, plan, stream);
    if (e != cudaErrorCooperativeLaunchTooLarge || call.rho != nullptr) return e;
    cudaGetLastError();  // fewer multiprocessors than the device has: two passes need none of them at once
  }
  if (const cudaError_t e = launch_of_keys(call, stream); e != cudaSuccess) return e;
  return launch_of_queries(call, stream);
}

}  // namespace siamese::kernels
