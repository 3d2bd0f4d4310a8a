// Whether a call runs by rows (qkv_rope_plan.cuh), and how its rows are dealt out.
#pragma once

#include "kernels/cuda/qkv_rope_ring.cuh"

namespace siamese::kernels::rows {

inline bool fits(const QkvRope& p) {
  if (!p.bf16 || (p.dim != 64 && p.dim != 128) || p.heads < 1 || p.kv_heads < 1 || p.tokens < 1) return false;
  if (!p.norm[kQuery] && !p.norm[kKey] && !p.norm[kValue]) return false;
  return p.layer || (p.bias[kQuery] == nullptr && p.bias[kKey] == nullptr && p.bias[kValue] == nullptr);
}

/// In place, values without a norm are left alone.
inline bool leaves_values(const QkvRope& p) { return p.out == p.in && !p.norm[kValue]; }

/// `run`: neighbouring units that a warp takes in turn; 0: as many as a token has, so that they share its angles; -1:
/// all its units are neighbours.
template <class C>
Plan plan_for(const QkvRope& p, int warps, int run) {
  Plan plan;
  plan.p = p;
  plan.by_length = Division(static_cast<unsigned>(p.length));
  const int heads[3] = {p.heads, p.kv_heads, p.kv_heads}, parts = leaves_values(p) ? 2 : 3;
  int64_t total = 0, before = 0;
  for (int i = 0; i < parts; ++i) total += heads[i];
  for (int i = 0; i < 3; ++i) plan.by_heads[i] = Division(static_cast<unsigned>(heads[i]));
  for (int i = 0; i < parts; ++i) {
    // Every part has one warp; the others go by the number of rows. Not by bytes: a warp always has as many units under
    // way, so that all move on at the same pace.
    before += heads[i];
    plan.first_warp[i + 1] = i + 1 + static_cast<int>((warps - parts) * before / total);
    plan.units[i] = static_cast<int>((p.tokens * heads[i] + C::rows - 1) / C::rows);
    const int mine = plan.first_warp[i + 1] - plan.first_warp[i];
    plan.run[i] = run > 0 ? run : heads[i] > C::rows ? heads[i] / C::rows : 1;
    if (run < 0) plan.run[i] = (plan.units[i] + mine - 1) / mine;
    plan.jump[i] = (mine - 1) * plan.run[i];
  }
  return plan;
}

struct Shape {
  int blocks = 0, bytes = 0;
};
/// Blocks that stay on this device's multiprocessors until all is done; false where one does not fit.
template <class C>
bool shape_for(void (*kernel)(Plan), const QkvRope& p, int inputs, Shape* out) {
  out->bytes = C::threads / 32 * C::stages * inputs * 1024;
  int device = 0, processors = 0, most = 0, each = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess ||
      out->bytes > most ||
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, out->bytes) != cudaSuccess ||
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared) !=
          cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, C::threads, static_cast<size_t>(out->bytes)) !=
          cudaSuccess ||
      each < 1) {
    cudaGetLastError();  // not the general kernel's
    return false;
  }
  const int64_t units = (p.tokens * (p.heads + 2 * p.kv_heads) + C::rows - 1) / C::rows, warps = C::threads / 32;
  const int64_t useful = (units + warps - 1) / warps, resident = static_cast<int64_t>(processors) * each;
  out->blocks = static_cast<int>(useful < resident ? useful : resident);
  return true;
}

template <class C>
cudaError_t launch(void (*kernel)(Plan), const QkvRope& p, const Shape& shape, int run, cudaStream_t stream) {
  const Plan plan = plan_for<C>(p, shape.blocks * (C::threads / 32), run);
  kernel<<<static_cast<unsigned>(shape.blocks), C::threads, static_cast<size_t>(shape.bytes), stream>>>(plan);
  return cudaGetLastError();
}

}  // namespace siamese::kernels::rows
