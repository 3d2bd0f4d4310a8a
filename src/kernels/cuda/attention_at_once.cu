#include "kernels/cuda/attention_at_once.cuh"

namespace siamese::kernels::attention {

uint32_t at_once_bytes(const AtOnce& plan, bool normed, bool lean) { return at_once::bytes(plan, normed, lean); }

cudaError_t launch_at_once(const AttentionCuda& call, const AtOnce& plan, cudaStream_t stream) {
  ColumnMaps maps;
  CUtensorMap g_q;
  if (!maps.make(call) || !make_boxes(&g_q, call.g_q, call.heads, call, 64)) return cudaErrorInvalidValue;
  Shape shape = shape_of(call);
  shape.team = plan.team;
  const bool normed = call.rho != nullptr;
  if (normed && call.cos == nullptr) return cudaErrorInvalidValue;
  const auto kernel = !normed     ? at_once::kernel<false, false>
                      : call.lean ? at_once::kernel<true, true>
                                  : at_once::kernel<true, false>;
  const uint32_t bytes = at_once_bytes(plan, normed, call.lean);
  const auto gain = [&](int i) { return static_cast<const bfloat*>(call.gain[i]); };
  HeadNorms norms{{gain(0), gain(1), gain(2)}, call.rho, call.gain_partial, {}, {}};
  if (normed && (!make_boxes(&norms.q, call.raw_q, call.heads, call, 64) ||
                 !make_boxes(&norms.k, call.raw_k, call.heads, call, 64)))
    return cudaErrorInvalidValue;
  if (const cudaError_t e =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
      e != cudaSuccess)
    return e;
  cudaLaunchAttribute together{};  // thread blocks wait for each other
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.rows * plan.team));
  config.blockDim = dim3(at_once::kRoles);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, shape, maps, g_q, static_cast<const float*>(call.log_sums),
                            static_cast<const float*>(call.dots), OrderedAngles{plan.angles(call)}, plan.sums(call),
                            plan.added(call), norms, at_once::norms_begin(plan));
}

}  // namespace siamese::kernels::attention
