#include "kernels/cuda/attention_of_keys.cuh"

namespace siamese::kernels::attention {

cudaError_t launch_of_keys(const AttentionCuda& call, cudaStream_t stream) {
  ColumnMaps maps;
  if (!maps.make(call)) return cudaErrorInvalidValue;
  const Shape shape = shape_of(call);
  int blocks = 0;
  const auto kernel = call.causal ? of_keys::kernel<true> : of_keys::kernel<false>;
  if (const cudaError_t e = prepare(kernel, of_keys::kBytes, shape.blocks * shape.batch * shape.kv_heads, &blocks);
      e != cudaSuccess)
    return e;
  kernel<<<blocks, kThreads, of_keys::kBytes, stream>>>(shape, maps, call.log_sums, call.dots, call.cos, call.sin);
  return cudaGetLastError();
}

}  // namespace siamese::kernels::attention
