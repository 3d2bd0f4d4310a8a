// CUDA side of `siamese::attention`.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/stream_step.h"
#include "ops/attention_norms.h"
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

/// A call of the backward pass and what it points to.
struct Backward {
  AttentionCuda call;
  Tensor g_qkv, scratch;
  std::vector<Tensor> keep;

  const void* hold(const Tensor& t) {
    keep.push_back(aligned(t));
    return pointer(keep.back());
  }
  /// `given` and what else is asked for in the arguments of `siamese::attention_backward`.
  Backward(const Tensor& gradient, const Tensor& given, const Tensor& output, const Tensor& log_sums, bool natural,
           const std::optional<Tensor>& cos, const std::optional<Tensor>& sin, int64_t heads, int64_t kv_heads,
           bool causal) {
    const Tensor qkv = aligned(given), g = aligned(gradient), out = aligned(output), sums = aligned(log_sums);
    call = describe(qkv, heads, kv_heads, causal);
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
    g_qkv = at::empty_like(qkv);
    if (g_qkv.numel() == 0) return;
    const Tensor dots = make_sums(qkv, heads), ours = natural ? make_sums(qkv, heads) : sums;
    keep = {qkv, g, out, sums, dots, ours};
    call.out = {out.const_data_ptr(), heads * kHead}, call.g = {g.const_data_ptr(), heads * kHead};
    call.g_q = part(g_qkv, 0), call.g_k = part(g_qkv, heads), call.g_v = part(g_qkv, heads + kv_heads);
    call.log_sums = ours.mutable_data_ptr<float>(), call.dots = dots.mutable_data_ptr<float>();
    if (natural) call.natural = sums.const_data_ptr<float>();
    if (cos) call.cos = static_cast<const float*>(hold(*cos)), call.sin = static_cast<const float*>(hold(*sin));
    const int64_t bytes = kernels::attention_scratch(call);
    scratch = at::empty({bytes}, qkv.options().dtype(at::kByte));
    if (bytes > 0) call.scratch = scratch.mutable_data_ptr();
  }
};

Tensor backward_cuda(const Tensor& gradient, const Tensor& given, const Tensor& output, const Tensor& log_sums,
                     bool natural, const std::optional<Tensor>& cos, const std::optional<Tensor>& sin, int64_t heads,
                     int64_t kv_heads, bool causal) {
  const c10::cuda::CUDAGuard guard(given.device());
  const Backward b(gradient, given, output, log_sums, natural, cos, sin, heads, kv_heads, causal);
  if (b.g_qkv.numel() > 0)
    C10_CUDA_CHECK(kernels::attention_backward_hopper(b.call, c10::cuda::getCurrentCUDAStream()));
  return b.g_qkv;
}

/// In one pass; where that is not to be had, attention's backward pass and then plain operations.
std::tuple<Tensor, Tensor> norms_backward_cuda(const Tensor& gradient, const Tensor& given, const Tensor& output,
                                               const Tensor& log_sums, bool natural, const Tensor& cos,
                                               const Tensor& sin, at::TensorList gains, const Tensor& raw,
                                               const Tensor& rho, bool lean) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const int64_t heads = given.size(2) / 3;
  attention_norms_check(given, gains, raw, rho);
  Backward b(gradient, given, output, log_sums, natural, cos, sin, heads, heads, true);
  b.call.lean = lean;
  const int parts = kernels::attention_gain_parts(b.call);
  bool served =
      b.call.scratch != nullptr && parts > 0 && rho.scalar_type() == at::kFloat && raw.scalar_type() == at::kBFloat16;
  for (const Tensor& gain : gains) served = served && gain.scalar_type() == at::kBFloat16;
  const auto apart = [&] {
    const Tensor g_y = backward_cuda(gradient, given, output, log_sums, natural, {}, {}, heads, heads, true);
    return norms_backward_plain(g_y, given, cos, sin, gains, raw, rho, lean);
  };
  if (!served) return apart();
  const Tensor partial = at::empty({parts, 3, kHead}, rho.options()), g_gains = at::empty({3, kHead}, given.options());
  const auto* kept = static_cast<const char*>(b.hold(raw));
  b.call.raw_q = {kept, 2 * heads * kHead}, b.call.raw_k = {kept + heads * kHead * 2, 2 * heads * kHead};
  b.call.rho = static_cast<const float*>(b.hold(rho)), b.call.gain_partial = partial.mutable_data_ptr<float>();
  kernels::ColumnSums sums;
  for (size_t i = 0; i < 3; ++i) {
    b.call.gain[i] = b.hold(gains[i]);
    sums.column[i] = static_cast<int>(i);
    sums.out[i] = static_cast<char*>(g_gains.mutable_data_ptr()) + i * kHead * 2;
  }
  sums.count = 3;
  const cudaError_t e = kernels::attention_backward_hopper(b.call, stream);
  if (e == cudaErrorCooperativeLaunchTooLarge) {  // fewer multiprocessors than the device has: not tried again
    cudaGetLastError();
    set_norms_inside(false);
    return apart();
  }
  C10_CUDA_CHECK(e);
  C10_CUDA_CHECK(kernels::sum_columns_cuda(partial.const_data_ptr<float>(), {parts, 3}, kHead, 1, sums, 2, stream,
                                           /*early=*/false));
  return {b.g_qkv, g_gains};
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("attention", forward_cuda);
  m.impl("attention_backward", backward_cuda);
  m.impl("attention_norms_backward", norms_backward_cuda);
}

}  // namespace siamese
