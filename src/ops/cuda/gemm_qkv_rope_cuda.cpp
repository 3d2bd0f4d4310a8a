// CUDA side of `siamese::gemm_qkv_rope`.
#include "ops/gemm_qkv_rope.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/gemm_qkv_rope.h"

namespace siamese {
namespace {

using at::Tensor;

/// As for SwiGLU's products (gemm_swiglu_cuda.cpp): deep ones need less energy by cuBLAS, small ones are latency.
bool pays(int64_t m, int64_t heads, int64_t kv_heads, int64_t k) {
  return k <= 1024 && m * (heads + 2 * kv_heads) * 64 >= (int64_t{1} << 24) &&
         kernels::gemm_qkv_rope_serves(m, heads, kv_heads, k);
}

bool suits(const Tensor& t, at::ScalarType type) {
  return t.scalar_type() == type && t.is_contiguous() && reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
}

Tensor forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, int64_t heads,
                    int64_t kv_heads, int64_t length) {
  gemm_qkv_rope_check(x, weight, cos, sin, heads, kv_heads, length);
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t m = x.size(0), k = x.size(1);
  if (cos.size(1) != 32 || !suits(x, at::kBFloat16) || !suits(weight, at::kBFloat16) || !suits(cos, at::kFloat) ||
      !suits(sin, at::kFloat) || !pays(m, heads, kv_heads, k))
    return gemm_qkv_rope_apart(x, weight, cos, sin, heads, kv_heads, length);
  Tensor out = at::empty({m, weight.size(0)}, x.options());
  C10_CUDA_CHECK(kernels::gemm_qkv_rope_forward(
      x.const_data_ptr(), weight.const_data_ptr(), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(),
      out.mutable_data_ptr(), m, length, heads, kv_heads, k, c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) { m.impl("gemm_qkv_rope", forward_cuda); }

}  // namespace siamese
