// Blocks of a cluster (Hopper on): a barrier among them, and reading each other's shared memory.
#pragma once

#include <cuda_runtime.h>

namespace siamese::kernels {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}
/// All threads of all blocks; what they wrote to shared memory before is seen after.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
/// The value at this block's address `mine`, in the block `rank`.
__device__ __forceinline__ float cluster_read(const float* mine, unsigned rank) {
  const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(mine));
  unsigned there;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(here), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];\n" : "=f"(value) : "r"(there) : "memory");
  return value;
}

#else  // compiled, never launched
__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ void cluster_barrier() { __trap(); }
__device__ __forceinline__ float cluster_read(const float*, unsigned) { return 0.f; }
#endif

}  // namespace siamese::kernels
