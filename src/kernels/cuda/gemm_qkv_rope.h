// The projection before attention with rotary positions inside (Hopper), for heads of 64 without norms:
//   (q, k, v) = X·Wᵀ,  out = (R(q), R(k), v)                  X [m, k], W [(H + 2K)·64, k], out [m, (H + 2K)·64]
// R as in qkv_rope.h. Everything is bf16, rows lie one after the other, sums are fp32; the product is rounded before
// it is turned in fp32: the same bits as the product followed by qkv_rope_forward_cuda.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace siamese::kernels {

/// Whether this device and these sizes are served: compute capability 9.0, k a multiple of 64.
bool gemm_qkv_rope_serves(int64_t m, int64_t heads, int64_t kv_heads, int64_t k);

/// cos, sin: fp32 [length, 32], 8-byte aligned; row t of X stands at position t mod length.
cudaError_t gemm_qkv_rope_forward(const void* x, const void* w, const float* cos, const float* sin, void* out,
                                  int64_t m, int64_t length, int64_t heads, int64_t kv_heads, int64_t k,
                                  cudaStream_t stream);

}  // namespace siamese::kernels
