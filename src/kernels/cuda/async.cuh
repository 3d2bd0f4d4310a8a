// Copies from global to shared memory that cost no registers while they are on their way.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace siamese::kernels {

/// 16 bytes; both addresses are multiples of 16. Not `real`: zeros, and nothing is read.
__device__ __forceinline__ void copy_async16(void* shared, const void* global, bool real) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(real ? 16 : 0) : "memory");
}
/// 4 bytes; both addresses are multiples of 4.
__device__ __forceinline__ void copy_async4(void* shared, const void* global) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(global) : "memory");
}
/// Until all copies of this thread have arrived, for this thread to read.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }
/// The copies of this thread so far are one group.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Until all groups of this thread but the last N have arrived.
template <int N>
__device__ __forceinline__ void copy_async_wait_but() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

// From compute capability 9.0 on, with a barrier of hopper.cuh.
/// This thread arrives at the barrier once its copies so far have.
__device__ __forceinline__ void copy_async_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
}
/// By one thread for all; the barrier counts the bytes. Multiples of 16, both addresses as well.
__device__ __forceinline__ void copy_bulk(uint32_t shared, const void* global, unsigned bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace siamese::kernels
