// Which projections before attention take the kernels with epilogues (kernels/cuda/gemm_qkv_rope.h, gemm_qkv_norm.h).
#pragma once

#include <ATen/ATen.h>

#include "kernels/cuda/gemm_qkv_rope.h"
#include "ops/gemm_qkv_rope.h"

namespace siamese {

inline bool suits(const at::Tensor& t, at::ScalarType type) {
  return t.scalar_type() == type && t.is_contiguous() && reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
}

/// As for SwiGLU's products (gemm_swiglu_cuda.cpp): deep ones need less energy by cuBLAS, small ones are latency.
inline bool projection_pays(int64_t m, int64_t heads, int64_t kv_heads, int64_t k) {
  return k <= 1024 && m * (heads + 2 * kv_heads) * 64 >= (int64_t{1} << 24) &&
         kernels::gemm_qkv_rope_serves(m, heads, kv_heads, k);
}
inline bool projection_pays(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                            int64_t heads, int64_t kv_heads) {
  if (x.dim() != 2 || cos.dim() != 2 || cos.size(1) != 32) return false;
  return suits(x, at::kBFloat16) && suits(weight, at::kBFloat16) && suits(cos, at::kFloat) && suits(sin, at::kFloat) &&
         projection_pays(x.size(0), heads, kv_heads, x.size(1));
}

}  // namespace siamese
