// The feed-forward's products with SwiGLU inside (Hopper): neither pass reads or writes what the other has in
// registers.
//   forward:   P = X·Wᵀ,  h = P_value ⊙ silu(P_gate)                    X [m, k], W [2f, k], P [m, 2f], h [m, f]
//   backward:  g_h = G·V,  g_P and h again from g_h and P               G [m, k], V [k, f]
// Everything is bf16, rows lie one after the other, sums are fp32; P and g_h are rounded before they are used further.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace siamese::kernels {

/// Whether this device and these sizes are served: compute capability 9.0, k a multiple of 64, f of 8.
bool gemm_swiglu_serves(int64_t m, int64_t f, int64_t k);

cudaError_t gemm_swiglu_forward(const void* x, const void* w, void* p, void* h, int64_t m, int64_t f, int64_t k,
                                cudaStream_t stream);
cudaError_t gemm_swiglu_backward(const void* g, const void* v, const void* p, void* g_p, void* h, int64_t m, int64_t f,
                                 int64_t k, cudaStream_t stream);

}  // namespace siamese::kernels
