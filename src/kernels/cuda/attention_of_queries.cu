#include "kernels/cuda/attention_of_queries.cuh"

namespace siamese::kernels::attention {

cudaError_t launch_of_queries(const AttentionCuda& call, cudaStream_t stream) {
  of_queries::Maps maps;
  if (!make_boxes(&maps.q, call.q, call.heads, call, 128) || !make_boxes(&maps.k, call.k, call.kv_heads, call, 128) ||
      !make_boxes(&maps.v, call.v, call.kv_heads, call, 128) || !make_boxes(&maps.g, call.g, call.heads, call, 128) ||
      !make_boxes(&maps.g_q, call.g_q, call.heads, call, 64))
    return cudaErrorInvalidValue;
  const Shape shape = shape_of(call);
  int blocks = 0;
  const auto kernel = call.causal ? of_queries::kernel<true> : of_queries::kernel<false>;
  if (const cudaError_t e = prepare(kernel, of_queries::kBytes, shape.blocks * shape.batch * shape.heads, &blocks);
      e != cudaSuccess)
    return e;
  kernel<<<blocks, kThreads, of_queries::kBytes, stream>>>(shape, maps, call.log_sums, call.dots, call.cos, call.sin);
  return cudaGetLastError();
}

}  // namespace siamese::kernels::attention
