// g_V and g_K by columns (attention_columns.cuh), for any attention; g_Q comes from attention_of_queries.cu.
#pragma once

#include "kernels/cuda/attention_columns.cuh"

namespace siamese::kernels::attention::of_keys {

constexpr int kStages = 9;
constexpr uint32_t kBytes = Memory::bytes(2 * kTile128, kColumnStage, kStages);

/// Blocks of keys, under the causal mask those with the most queries first.
struct Items {
  const Shape& s;
  int index = blockIdx.x, block, batch, head;

  __device__ explicit Items(const Shape& shape) : s(shape) { place(); }
  __device__ bool more() const { return index < s.blocks * s.batch * s.kv_heads; }
  __device__ void next() { index += gridDim.x, place(); }
  __device__ int start(int first) const { return first; }
  __device__ void place() {
    const int heads = s.batch * s.kv_heads;
    block = index / heads, batch = index % heads / s.kv_heads, head = index % s.kv_heads;
  }
};

/// dS stays in registers; g_K lies over the keys.
struct Registers {
  static constexpr bool kNormed = false;
  uint32_t ds[16] = {};

  __device__ void begin(const Items&, int) const {}
  __device__ bool rho(const Items&, int) const { return false; }

  __device__ void take(const float (&values)[32]) {
    hold();
    pack_rows<32>(ds, values);
  }
  __device__ void nothing() const {}
  __device__ void times_queries(float (&g_k)[32], uint32_t q, bool add) const { times<4>(g_k, ds, q, add); }
  __device__ void hold() { hopper::hold(ds); }
  __device__ uint32_t place_of_keys(uint32_t keys) const { return keys; }
};

template <bool causal>
__global__ void __launch_bounds__(kThreads, 1)
    kernel(const Shape shape, const __grid_constant__ ColumnMaps maps, const float* log_sums, const float* dots,
           const float* cos, const float* sin) {
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  Memory memory(hopper::shared_address(dynamic_bytes), 2 * kTile128, kColumnStage, kStages);
  in_roles([&] { feed_columns<causal, Items>(shape, maps, log_sums, dots, memory); },
           [&](int mine) {
             Registers sink;
             const AngleTables angles{cos, sin, shape.length};
             differentiate_columns<causal, Items>(shape, maps, memory, angles, mine, sink);
           });
}

}  // namespace siamese::kernels::attention::of_keys
