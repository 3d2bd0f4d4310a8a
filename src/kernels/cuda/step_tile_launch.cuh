// Whether and how a call runs by tiles (step_tile.cuh).
#pragma once

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/step_tile.cuh"

namespace siamese::kernels::tile {

/// Threads a row, rows at once and tiles ahead of a block; blocks of the launch.
struct Shape {
  int threads = 0, groups = 0, stages = 0, bytes = 0, blocks = 0;
};

/// Streams in bf16, one sample, N_y, and nothing around it. `form` is set where this holds.
inline bool form_of(const StepCuda& call, Form* form) {
  if (call.types != StepTypes::bf16_bf16 || call.width != call.d || call.y == nullptr || call.skip_y || !call.norm_y ||
      call.norm_r || call.row_scale != nullptr || call.gate != nullptr || call.scale != nullptr ||
      call.shift != nullptr || call.samples != 1 || call.rows >= (int64_t{1} << 30))
    return false;
  const bool two = call.x != nullptr;
  if (call.norm_x != call.norm_in || (!two && call.norm_x) || (two && !call.norm_x && call.c1 == nullptr)) return false;
  *form = !two ? Form::pre : call.norm_x ? Form::whole : Form::mixed;
  return true;
}

/// As many rows at once as this device's shared memory has room for; false where there is no shape.
template <class C>
bool shape_for(const Needs& needs, const StepCuda& call, Shape* out) {
  const int64_t threads = call.d / C::E;
  if (call.d % (32 * C::E) != 0 || threads > C::threads || (C::warp && threads != 32) || call.rows % C::R != 0)
    return false;
  int device = 0, processors = 0, most = 0;
  if (!built_for_hopper() || cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return false;
  const int64_t tiles = call.rows / C::R;
  const int d = static_cast<int>(call.d), named_barriers = 15;
  out->threads = static_cast<int>(threads), out->blocks = static_cast<int>(tiles < processors ? tiles : processors);
  out->groups = C::threads / out->threads;
  if (!C::warp && out->groups > named_barriers) out->groups = named_barriers;
  for (; out->groups > 0; --out->groups)
    for (out->stages = C::stages; out->stages >= 2; --out->stages) {
      out->bytes = Layout(needs, d, out->threads, out->groups, out->stages, C::R).bytes;
      if (out->bytes <= most) return true;
    }
  return false;
}

inline cudaError_t launch(void (*kernel)(StepCuda, int), const StepCuda& call, const Shape& shape,
                          cudaStream_t stream) {
  if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.bytes);
      e != cudaSuccess)
    return e;
  kernel<<<static_cast<unsigned>(shape.blocks),
           dim3(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.groups)),
           static_cast<size_t>(shape.bytes), stream>>>(call, shape.stages);
  return cudaGetLastError();
}

}  // namespace siamese::kernels::tile
