// A kernel that is launched while the one before it in the stream still runs, so that its start costs nothing: it waits
// inside (programmatic dependent launch, from compute capability 9.0 on; elsewhere an ordinary launch). Allowed under
// graph capture.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>

namespace siamese::kernels {

/// In the first kernel: the next may be launched from now on.
__device__ __forceinline__ void allow_next() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// In the second, by every thread before it touches global memory: until the first has ended and all it wrote is there.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <int>
__global__ void code_probe() {}
/// Whether this library's code for the current device is Hopper's or newer. Where only code for older GPUs was built, a
/// newer GPU runs that, in which the instructions above, and all that depends on them, are missing.
inline bool built_for_hopper() {
  cudaFuncAttributes a{};
  return cudaFuncGetAttributes(&a, code_probe<0>) == cudaSuccess && a.ptxVersion >= 90;
}

/// SIAMESE_EARLY_LAUNCH=0 turns it off: compute-sanitizer's records get mixed up where kernels overlap.
inline bool early_launch_wanted() {
  static const bool wanted = [] {
    const char* given = std::getenv("SIAMESE_EARLY_LAUNCH");
    return given == nullptr || std::strcmp(given, "0") != 0;
  }();
  return wanted;
}

template <class... Formal, class... Actual>
cudaError_t launch_early(void (*kernel)(Formal...), dim3 grid, dim3 block, cudaStream_t stream, Actual... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = block, config.stream = stream;
  config.attrs = &early, config.numAttrs = built_for_hopper() && early_launch_wanted() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace siamese::kernels
