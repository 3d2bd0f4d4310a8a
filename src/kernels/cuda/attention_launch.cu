#include <cmath>

#include "kernels/cuda/attention_hopper.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace attention {
namespace {

constexpr int kDotThreads = 256;

/// D = Σ G⊙O of a head: eight lanes a head, which lie side by side in memory; 0 past the end. Also the logarithms of
/// the sums, where another library's forward pass left them.
__global__ void __launch_bounds__(kDotThreads)
    dots_kernel(const bfloat* g, const bfloat* o, int64_t g_stride, int64_t o_stride, const Shape s,
                const float* natural, float* log_sums, float* dots) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kDotThreads + threadIdx.x) / 8;
  const int lane = threadIdx.x % 8, head = static_cast<int>(at % s.heads);
  const int64_t token = at / s.heads, batch = token / s.rows, row = token % s.rows;
  if (batch >= s.batch) return;
  float sum = 0.f;
  if (row < s.length) {
    const int64_t place = batch * s.length + row;
    const Float8 a = widen(fetch8(g + place * g_stride + head * kHead + lane * 8));
    const Float8 b = widen(fetch8(o + place * o_stride + head * kHead + lane * 8));
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a.v[i] * b.v[i];
  }
#pragma unroll
  for (int i = 1; i < 8; i *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, i);
  if (lane != 0) return;
  const int64_t of_head = batch * s.heads + head;
  dots[of_head * s.rows + row] = sum;
  if (natural != nullptr)
    log_sums[of_head * s.rows + row] =
        row < s.length ? natural[of_head * s.length + row] * static_cast<float>(M_LOG2E) : INFINITY;
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

cudaError_t attention_backward_hopper(const AttentionCuda& call, cudaStream_t stream) {
  using namespace attention;
  const Shape shape = shape_of(call);
  const int64_t threads = static_cast<int64_t>(shape.batch) * shape.rows * shape.heads * 8;
  dots_kernel<<<static_cast<unsigned>((threads + kDotThreads - 1) / kDotThreads), kDotThreads, 0, stream>>>(
      static_cast<const bfloat*>(call.g.data), static_cast<const bfloat*>(call.out.data), call.g.stride,
      call.out.stride, shape, call.natural, call.log_sums, call.dots);
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return e;
  if (const cudaError_t e = launch_of_keys(call, stream); e != cudaSuccess) return e;
  return launch_of_queries(call, stream);
}

}  // namespace siamese::kernels
