// Launch shapes of the hyper-connections' kernels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/processors.h"

namespace siamese::kernels {

/// A thread has V pieces of 8 columns.
inline int hyper_threads(int d, int pieces) { return (d / (8 * pieces) + 31 + (d % (8 * pieces) != 0)) / 32 * 32; }

/// Calls f(S{}, std::integral_constant<int, n>{}) for the type and number of streams.
template <class F>
cudaError_t with_hyper_types(bool bf16, int n, int d, int64_t tokens, const F& f) {
  if (d < 8 || d % 8 != 0 || d > 2048 || tokens > INT32_MAX / 2) return cudaErrorInvalidValue;
  using Two = std::integral_constant<int, 2>;
  using Four = std::integral_constant<int, 4>;
  if (n == 2) return bf16 ? f(__nv_bfloat16{}, Two{}) : f(float{}, Two{});
  if (n == 4) return bf16 ? f(__nv_bfloat16{}, Four{}) : f(float{}, Four{});
  return cudaErrorInvalidValue;
}

/// As many blocks as run at once, at most `most`; raises the kernel's limit of shared memory where it must.
template <class K>
cudaError_t resident_blocks(K kernel, int threads, size_t shared, int64_t most, int* out) {
  int processors = 0, each = 0;
  if (const cudaError_t e = count_processors(&processors); e != cudaSuccess) return e;
  if (shared > 32 * 1024)  // the default limit is 48 kB, static memory included
    if (const cudaError_t e =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
        e != cudaSuccess)
      return e;
  if (const cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared);
      e != cudaSuccess)
    return e;
  const int64_t resident = static_cast<int64_t>(processors) * (each > 0 ? each : 1);
  *out = static_cast<int>(resident < most ? resident : most);
  return cudaSuccess;
}

}  // namespace siamese::kernels
