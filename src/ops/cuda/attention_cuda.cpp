// CUDA side of `siamese::attention`.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/attention_hopper.h"
#include "ops/cuda/tensors.h"

namespace siamese {
namespace {

using at::Tensor;
using kernels::AttentionCuda;
using kernels::AttentionTensor;

constexpr int64_t kHead = 64;

/// Heads [first, ...) of a packed tensor [B, T, all, 64].
AttentionTensor part(const Tensor& packed, int64_t first) {
  return {static_cast<const char*>(packed.const_data_ptr()) + first * kHead * 2, packed.size(2) * kHead};
}

AttentionCuda describe(const Tensor& qkv, int64_t heads, int64_t kv_heads, bool causal) {
  TORCH_CHECK(qkv.dim() == 4 && qkv.size(3) == kHead && qkv.size(2) == heads + 2 * kv_heads && kv_heads > 0 &&
                  heads > 0 && heads % kv_heads == 0,
              "[attention] qkv must be [B, T, ", heads + 2 * kv_heads, ", 64] on the GPU but is ", qkv.sizes());
  TORCH_CHECK(qkv.scalar_type() == at::kBFloat16, "[attention] the GPU has bf16 but qkv is ", qkv.scalar_type());
  TORCH_CHECK(kernels::attention_hopper_serves(), "[attention] needs a GPU of compute capability 9.0");
  AttentionCuda call;
  call.batch = static_cast<int>(qkv.size(0)), call.length = static_cast<int>(qkv.size(1));
  call.causal = causal;
  call.heads = static_cast<int>(heads), call.kv_heads = static_cast<int>(kv_heads);
  call.q = part(qkv, 0), call.k = part(qkv, heads), call.v = part(qkv, heads + kv_heads);
  return call;
}

Tensor make_sums(const Tensor& qkv, int64_t heads) {
  return at::empty({qkv.size(0), heads, kernels::attention_rows(qkv.size(1))}, qkv.options().dtype(at::kFloat));
}

std::tuple<Tensor, Tensor> forward_cuda(const Tensor& given, int64_t heads, int64_t kv_heads, bool causal) {
  const c10::cuda::CUDAGuard guard(given.device());
  const Tensor qkv = aligned(given);
  AttentionCuda call = describe(qkv, heads, kv_heads, causal);
  Tensor out = at::empty({qkv.size(0), qkv.size(1), heads, kHead}, qkv.options()), sums = make_sums(qkv, heads);
  if (out.numel() == 0) return {out, sums};
  call.out = part(out, 0);
  call.log_sums = sums.mutable_data_ptr<float>();
  C10_CUDA_CHECK(kernels::attention_forward_hopper(call, c10::cuda::getCurrentCUDAStream()));
  return {out, sums};
}

Tensor backward_cuda(const Tensor& gradient, const Tensor& given, const Tensor& output, const Tensor& log_sums,
                     bool natural, const std::optional<Tensor>& cos, const std::optional<Tensor>& sin, int64_t heads,
                     int64_t kv_heads, bool causal) {
  const c10::cuda::CUDAGuard guard(given.device());
  const Tensor qkv = aligned(given), g = aligned(gradient), out = aligned(output), sums = aligned(log_sums);
  AttentionCuda call = describe(qkv, heads, kv_heads, causal);
  TORCH_CHECK(g.sizes() == out.sizes() && g.scalar_type() == at::kBFloat16 && out.scalar_type() == at::kBFloat16 &&
                  g.device() == qkv.device() && out.device() == qkv.device() &&
                  out.numel() == qkv.size(0) * qkv.size(1) * heads * kHead,
              "[attention_backward] out and its gradient must be [", qkv.size(0), ", ", qkv.size(1), ", ", heads,
              ", 64] in bf16 but are ", out.sizes(), " and ", g.sizes());
  const int64_t rows = natural ? qkv.size(1) : kernels::attention_rows(qkv.size(1));
  TORCH_CHECK(sums.scalar_type() == at::kFloat && sums.numel() == qkv.size(0) * heads * rows,
              "[attention_backward] log_sums must be what the forward pass returned, but are ", sums.sizes());
  TORCH_CHECK(cos.has_value() == sin.has_value() &&
                  (!cos || (cos->scalar_type() == at::kFloat && sin->scalar_type() == at::kFloat &&
                            cos->numel() >= qkv.size(1) * kHead / 2 && sin->numel() == cos->numel())),
              "[attention_backward] cos and sin must be [T, 32] fp32");
  Tensor g_qkv = at::empty_like(qkv);
  if (g_qkv.numel() == 0) return g_qkv;
  const Tensor dots = make_sums(qkv, heads), ours = natural ? make_sums(qkv, heads) : sums;
  call.out = {out.const_data_ptr(), heads * kHead}, call.g = {g.const_data_ptr(), heads * kHead};
  call.g_q = part(g_qkv, 0), call.g_k = part(g_qkv, heads), call.g_v = part(g_qkv, heads + kv_heads);
  call.log_sums = ours.mutable_data_ptr<float>(), call.dots = dots.mutable_data_ptr<float>();
  if (natural) call.natural = sums.const_data_ptr<float>();
  const Tensor c = cos ? aligned(*cos) : Tensor(), s = sin ? aligned(*sin) : Tensor();
  call.cos = static_cast<const float*>(pointer(c)), call.sin = static_cast<const float*>(pointer(s));
  const int64_t bytes = kernels::attention_scratch(call);
  const Tensor scratch = at::empty({bytes}, qkv.options().dtype(at::kByte));
  if (bytes > 0) call.scratch = scratch.mutable_data_ptr();
  C10_CUDA_CHECK(kernels::attention_backward_hopper(call, c10::cuda::getCurrentCUDAStream()));
  return g_qkv;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("attention", forward_cuda);
  m.impl("attention_backward", backward_cuda);
}

}  // namespace siamese
