// CUDA side of `siamese::gemm_qkv_rope`.
#include "ops/gemm_qkv_rope.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "ops/cuda/projection.h"

namespace siamese {
namespace {

using at::Tensor;

Tensor forward_cuda(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, int64_t heads,
                    int64_t kv_heads, int64_t length) {
  gemm_qkv_rope_check(x, weight, cos, sin, heads, kv_heads, length);
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t m = x.size(0), k = x.size(1);
  if (!projection_pays(x, weight, cos, sin, heads, kv_heads))
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
