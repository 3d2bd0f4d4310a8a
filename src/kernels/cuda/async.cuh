// Copies from global to shared memory that cost no registers while they are on their way.
#pragma once

#include <cuda_runtime.h>

namespace siamese::kernels {

/// 16 bytes; both addresses are multiples of 16. Not `real`: zeros, and nothing is read.
__device__ __forceinline__ void copy_async16(void* shared, const void* global, bool real) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(real ? 16 : 0) : "memory");
}
/// Until all copies of this thread have arrived, for this thread to read.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }

}  // namespace siamese::kernels
