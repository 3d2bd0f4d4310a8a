// The projection before attention with the norms of q, k and v and rotary positions inside (Hopper), heads of 64,
// RMSNorm:
//   x = X·Wᵀ by heads,  ρ = (mean(x²) + ε)^(-1/2),  out = (R(γ_q·ρ·x_q), R(γ_k·ρ·x_k), γ_v·ρ·x_v)
// X [m, k], W [(H + 2K)·64, k], out [m, (H + 2K)·64]. R as in qkv_rope.h. Everything is bf16 but ρ, rows lie one after
// the other, sums are fp32; the product is rounded before it is normed in fp32. Kept for the backward pass
// (attention_norms.cuh): x of q and k, raw [m, (H + K)·64], and ρ [H + 2K, m].
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace siamese::kernels {

struct GemmQkvNorm {
  const void *x = nullptr, *w = nullptr;
  const void* gain[3] = {};                    // of q, k, v, [64]; 0 counts as 2⁻⁶⁰ (head_gain.cuh)
  const float *cos = nullptr, *sin = nullptr;  // [length, 32], 8-byte aligned; row t of X stands at t mod length
  float eps = 0;
  int64_t m = 0, length = 0, heads = 0, kv_heads = 0, k = 0;
  void *out = nullptr, *raw = nullptr;
  bool lean = false;  // raw stays as it is where the gains of q and of k are alike (head_gain.cuh)
  float* rho = nullptr;
};

/// Sizes are served where gemm_qkv_rope_serves() says so.
cudaError_t gemm_qkv_norm_forward(const GemmQkvNorm& call, cudaStream_t stream);

}  // namespace siamese::kernels
