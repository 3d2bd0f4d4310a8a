// Between the blocks of a cluster: what one block sends to another's shared memory is counted, in bytes, by a barrier
// there (hopper.cuh), so that nobody waits but who needs it. Addresses are the sender's own; the same place in block
// `rank` is meant.
#pragma once

#include "kernels/cuda/hopper.cuh"

namespace siamese::kernels {

/// As hopper::barrier_wait, where other blocks arrive: what they wrote is seen.
__device__ __forceinline__ void barrier_wait_cluster(uint32_t barrier, uint32_t phase) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}
/// Four floats from registers.
__device__ __forceinline__ void send4(const float4& v, float* to, uint32_t barrier, unsigned rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   hopper::address_in(hopper::shared_address(to), rank)),
               "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(hopper::address_in(barrier, rank))
               : "memory");
}

}  // namespace siamese::kernels
