// CUDA side of `siamese::gemm_qkv_norm`.
#include "ops/gemm_qkv_norm.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/gemm_qkv_norm.h"
#include "ops/cuda/projection.h"

namespace siamese {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor, Tensor> forward_cuda(const Tensor& x, const Tensor& weight, at::TensorList gains,
                                                const Tensor& cos, const Tensor& sin, double eps, int64_t heads,
                                                int64_t kv_heads, int64_t length, bool lean) {
  const c10::cuda::CUDAGuard guard(x.device());
  bool fits = projection_pays(x, weight, cos, sin, heads, kv_heads) && gains.size() == 3;
  for (const Tensor& gain : gains) fits = fits && suits(gain, at::kBFloat16) && gain.numel() == 64;
  if (!fits) {
    const QkvNormed n = gemm_qkv_norm_apart(x, weight, gains, cos, sin, eps, heads, kv_heads, length);
    return {n.out, n.raw, n.rho};
  }
  gemm_qkv_rope_check(x, weight, cos, sin, heads, kv_heads, length);
  kernels::GemmQkvNorm call;
  call.m = x.size(0), call.length = length, call.heads = heads, call.kv_heads = kv_heads, call.k = x.size(1);
  const Tensor out = at::empty({call.m, weight.size(0)}, x.options());
  const Tensor raw = at::empty({call.m, (heads + kv_heads) * 64}, x.options());
  const Tensor rho = at::empty({heads + 2 * kv_heads, call.m}, cos.options());
  call.x = x.const_data_ptr(), call.w = weight.const_data_ptr();
  for (size_t i = 0; i < 3; ++i) call.gain[i] = gains[i].const_data_ptr();
  call.cos = cos.const_data_ptr<float>(), call.sin = sin.const_data_ptr<float>();
  call.eps = static_cast<float>(eps), call.lean = lean;
  call.out = out.mutable_data_ptr(), call.raw = raw.mutable_data_ptr(), call.rho = rho.mutable_data_ptr<float>();
  C10_CUDA_CHECK(kernels::gemm_qkv_norm_forward(call, c10::cuda::getCurrentCUDAStream()));
  return {out, raw, rho};
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) { m.impl("gemm_qkv_norm", forward_cuda); }

}  // namespace siamese
