// CUDA side of the pass before attention.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/qkv_rope.h"
#include "ops/cuda/tensors.h"
#include "ops/qkv_rope.h"

namespace siamese {
namespace {

using at::Tensor;
using Optionals = c10::List<std::optional<Tensor>>;

/// Arguments of both passes. `keep` holds what had to be made contiguous.
kernels::QkvRope arguments(const Tensor& qkv, const Tensor& cos, const Tensor& sin, const Optionals& affine,
                           int64_t heads, int64_t kv_heads, int64_t flags, double eps, std::vector<Tensor>& keep) {
  TORCH_CHECK(qkv.dim() == 4 && qkv.is_contiguous() && qkv.size(2) == heads + 2 * kv_heads,
              "[qkv_rope] qkv must be contiguous [B, T, ", heads + 2 * kv_heads, ", dim] but is ", qkv.sizes());
  TORCH_CHECK(qkv.scalar_type() == at::kBFloat16 || qkv.scalar_type() == at::kFloat,
              "[qkv_rope] needs bf16 or fp32 but ", "qkv is ", qkv.scalar_type());
  TORCH_CHECK(cos.is_contiguous() && sin.is_contiguous() && cos.scalar_type() == at::kFloat &&
                  cos.size(0) >= qkv.size(1) && cos.size(1) * 2 == qkv.size(3) && cos.sizes() == sin.sizes(),
              "[qkv_rope] cos and sin must be fp32 [", qkv.size(1), ", ", qkv.size(3) / 2, "] but are ", cos.sizes());
  kernels::QkvRope p;
  p.bf16 = qkv.scalar_type() == at::kBFloat16;
  p.tokens = qkv.size(0) * qkv.size(1), p.length = qkv.size(1);
  p.heads = static_cast<int>(heads), p.kv_heads = static_cast<int>(kv_heads), p.dim = static_cast<int>(qkv.size(3));
  p.layer = (flags & kQkvLayer) != 0;
  p.eps = static_cast<float>(eps);
  p.cos = cos.const_data_ptr<float>(), p.sin = sin.const_data_ptr<float>();
  p.in = qkv.const_data_ptr();
  for (size_t i = 0; i < 3; ++i) {
    p.norm[i] = (flags & (kQkvNormQ << i)) != 0;
    for (const size_t at : {i, 3 + i}) {
      const Tensor t = affine.get(at).value_or(Tensor());
      if (!t.defined()) continue;
      TORCH_CHECK(t.dim() == 1 && t.size(0) == qkv.size(3) && t.scalar_type() == qkv.scalar_type(),
                  "[qkv_rope] a gain must be [", qkv.size(3), "] of type ", qkv.scalar_type(), " but is ", t.sizes());
      keep.push_back(aligned(t));
      (at < 3 ? p.gain[i] : p.bias[i]) = keep.back().const_data_ptr();
    }
  }
  return p;
}

void forward_out_cuda(const Tensor& out, const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine,
                      int64_t heads, int64_t kv_heads, int64_t flags, double eps) {
  const c10::cuda::CUDAGuard guard(qkv.device());
  std::vector<Tensor> keep;
  kernels::QkvRope p = arguments(qkv, cos, sin, affine, heads, kv_heads, flags, eps, keep);
  TORCH_CHECK(out.is_contiguous() && out.sizes() == qkv.sizes() && out.scalar_type() == qkv.scalar_type(),
              "[qkv_rope] out must be like qkv");
  p.out = out.mutable_data_ptr();
  TORCH_CHECK(reinterpret_cast<uintptr_t>(p.in) % 16 == 0 && reinterpret_cast<uintptr_t>(p.out) % 16 == 0,
              "[qkv_rope] qkv and out must begin at multiples of 16 bytes");
  C10_CUDA_CHECK(kernels::qkv_rope_forward_cuda(p, c10::cuda::getCurrentCUDAStream()));
}

Tensor forward_cuda(const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                    int64_t kv_heads, int64_t flags, double eps) {
  const Tensor dense = aligned(qkv), out = at::empty(dense.sizes(), dense.options());
  forward_out_cuda(out, dense, cos, sin, std::move(affine), heads, kv_heads, flags, eps);
  return out;
}

/// Whether the kernel can read it 16 bytes at a time by its strides.
bool readable(const Tensor& g) {
  return g.stride(3) == 1 && g.stride(0) % 8 == 0 && g.stride(1) % 8 == 0 && g.stride(2) % 8 == 0 &&
         reinterpret_cast<uintptr_t>(g.const_data_ptr()) % 16 == 0;
}

std::vector<Tensor> backward_cuda(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& qkv_in,
                                  const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                                  int64_t kv_heads, int64_t flags, double eps) {
  const c10::cuda::CUDAGuard guard(qkv_in.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const Tensor qkv = aligned(qkv_in);
  std::vector<Tensor> keep;
  kernels::QkvRope p = arguments(qkv, cos, sin, affine, heads, kv_heads, flags, eps, keep);
  const Tensor* grads[] = {&gq, &gk, &gv};
  for (size_t i = 0; i < 3; ++i) {
    const Tensor t = readable(*grads[i]) ? *grads[i] : grads[i]->clone(at::MemoryFormat::Contiguous);
    keep.push_back(t);
    p.g[i] = t.const_data_ptr();
    p.batch_stride[i] = t.stride(0), p.token_stride[i] = t.stride(1), p.head_stride[i] = t.stride(2);
  }
  std::vector<Tensor> result(7);
  result[0] = at::empty(qkv.sizes(), qkv.options());
  p.out = result[0].mutable_data_ptr();
  kernels::StepParts parts;
  C10_CUDA_CHECK(kernels::qkv_rope_parts(p, &parts));
  const bool normed = p.norm[0] || p.norm[1] || p.norm[2];
  const Tensor partial = at::empty({normed ? parts.parts : 0, parts.columns, qkv.size(3)}, cos.options());
  p.partial = static_cast<float*>(partial.mutable_data_ptr());
  C10_CUDA_CHECK(kernels::qkv_rope_backward_cuda(p, parts, stream));
  kernels::ColumnSums sums;
  for (size_t i = 0; i < 6; ++i) {
    const bool there = affine.get(i).has_value() && affine.get(i)->defined();
    result[1 + i] = at::empty({there ? qkv.size(3) : 0}, qkv.options());
    if (!there) continue;
    if (!normed || p.tokens == 0) {  // no part sums anything
      result[1 + i].zero_();
      continue;
    }
    sums.column[sums.count] = static_cast<int>(i);
    sums.out[sums.count++] = result[1 + i].mutable_data_ptr();
  }
  C10_CUDA_CHECK(kernels::sum_columns_cuda(p.partial, parts, qkv.size(3), 1, sums, p.bf16 ? 2 : 0, stream));
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("qkv_rope", forward_cuda);
  m.impl("qkv_rope_out", forward_out_cuda);
  m.impl("qkv_rope_backward", backward_cuda);
}

}  // namespace siamese
