// Chooses and launches the backward kernel for a pair of types; a file a pair, so that they compile side by side.
#pragma once

#include "kernels/cuda/step_backward.cuh"

namespace siamese::kernels {

/// What the column sums of a block take; the longest rows (V = 8) keep theirs in local memory.
constexpr size_t step_shared_bytes(bool layer, bool sample, int vectors) {
  return vectors == 8 ? 0 : static_cast<size_t>(step_columns(layer, sample)) * vectors * 256 * kStepThreads / 32 * 4;
}

/// As in the forward pass, unless this device has too little shared memory for the column sums: then fewer vectors a
/// lane, and at the last local memory.
inline cudaError_t step_backward_shape(const StepCuda& call, StepShape* out) {
  int device = 0, most = 0;
  if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (const cudaError_t e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      e != cudaSuccess)
    return e;
  const bool sample = call.gate != nullptr || call.scale != nullptr || call.shift != nullptr;
  const size_t fixed = 1024;  // RowSums' buffer, and some
  for (const int64_t at_most : {4, 2}) {
    *out = step_shape(call, at_most);
    if (step_shared_bytes(call.layer, sample, out->vectors) + fixed <= static_cast<size_t>(most)) return cudaSuccess;
  }
  *out = {kStepThreads, 8};
  return cudaSuccess;
}

/// Both entry points for a pair of types: with `parts->parts` 0 they are counted, otherwise the pass is launched.
template <class S, class Z>
cudaError_t step_backward_typed(const StepCuda& call, StepParts* parts, cudaStream_t stream) {
  StepShape shape;
  if (const cudaError_t e = step_backward_shape(call, &shape); e != cudaSuccess) return e;
  return with_step_shape<S>(call, shape, [&](auto layer, auto vectors, auto warps) {
    constexpr bool l = decltype(layer)::value;
    constexpr int v = decltype(vectors)::value, w = decltype(warps)::value;
    // For the longest rows there is only the most general kernel.
    const bool sample = call.gate != nullptr || call.scale != nullptr || call.shift != nullptr || v == 8;
    const size_t shared = step_shared_bytes(l, sample, v);
    auto launch = [&](auto kernel) {
      if (parts->parts == 0) {
        parts->columns = step_columns(call.layer, sample);
        if (const cudaError_t e =
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
            e != cudaSuccess)
          return e;
        return parts_for(kernel, call, shape, shared, &parts->parts);
      }
      kernel<<<static_cast<unsigned>(parts->parts), kStepThreads, shared, stream>>>(call, shape.row_threads);
      return cudaGetLastError();
    };
    const bool two = call.x != nullptr;
    if constexpr (v != 8) {
      if (!sample) {
        if constexpr (w > 0) {
          const bool complete = call.y != nullptr && !call.skip_y && call.norm_y && !call.norm_r &&
                                call.row_scale == nullptr && call.g_z != nullptr && call.g_y_out != nullptr &&
                                call.g_y != nullptr && (!two || (call.g_x_out != nullptr && call.g_x != nullptr)) &&
                                (two ? call.g_r != nullptr || call.joined : call.g_r == nullptr);
          if (complete && !two && !call.norm_in)
            return launch(step_backward_kernel<S, Z, false, l, false, v, w, StepForm::whole>);
          // Two streams with all norms have registers for two vectors (at three the general kernel is faster: 284
          // against 385 us at 768 x 65536 on an H200), with c1 for three.
          if constexpr (v == 2) {
            if (complete && two && call.norm_x && call.norm_in)
              return launch(step_backward_kernel<S, Z, true, l, false, v, w, StepForm::whole>);
          }
          if constexpr (v < 4) {
            if (complete && two && !call.norm_x && !call.norm_in && call.c1 != nullptr)
              return launch(step_backward_kernel<S, Z, true, l, false, v, w, StepForm::mixed>);
          }
        }
        return two ? launch(step_backward_kernel<S, Z, true, l, false, v, 0, StepForm::any>)
                   : launch(step_backward_kernel<S, Z, false, l, false, v, 0, StepForm::any>);
      }
    }
    return two ? launch(step_backward_kernel<S, Z, true, l, true, v, 0, StepForm::any>)
               : launch(step_backward_kernel<S, Z, false, l, true, v, 0, StepForm::any>);
  });
}

}  // namespace siamese::kernels
