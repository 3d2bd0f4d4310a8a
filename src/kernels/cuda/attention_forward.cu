#include "kernels/cuda/attention_forward.cuh"

namespace siamese::kernels::attention {

cudaError_t launch_forward(const AttentionCuda& call, cudaStream_t stream) {
  forward::Maps maps;
  if (!make_boxes(&maps.q, call.q, call.heads, call, 128) || !make_boxes(&maps.k, call.k, call.kv_heads, call, 128) ||
      !make_boxes(&maps.v, call.v, call.kv_heads, call, 128) || !make_boxes(&maps.out, call.out, call.heads, call, 64))
    return cudaErrorInvalidValue;
  const Shape shape = shape_of(call);
  int blocks = 0;
  const auto kernel = call.causal ? forward::kernel<true> : forward::kernel<false>;
  if (const cudaError_t e = prepare(kernel, forward::kBytes, shape.blocks * shape.batch * shape.heads, &blocks);
      e != cudaSuccess)
    return e;
  kernel<<<blocks, kThreads, forward::kBytes, stream>>>(shape, maps, call.log_sums);
  return cudaGetLastError();
}

}  // namespace siamese::kernels::attention
