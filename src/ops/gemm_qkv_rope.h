// The projection before attention with rotary positions in it, as a registered operator `siamese::gemm_qkv_rope`, for
// heads without norms. Where that pays (Hopper, bf16, heads of 64; kernels/cuda/gemm_qkv_rope.h) q and k are turned
// before they leave registers; elsewhere it is a product and `siamese::qkv_rope_out`. The angles have no gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace siamese {

/// x [m, k], weight [(heads + 2 kv heads)·dim, k], cos and sin [length or more, dim/2] -> x·Wᵀ with the heads of q and
/// k turned. Row t stands at position t mod length; m is a multiple of length.
at::Tensor gemm_qkv_rope(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                         int64_t heads, int64_t kv_heads, int64_t length);

/// What the projection keeps of q, k and v as they were before their norms (ops/gemm_qkv_norm.h).
struct KeptHeads {
  at::Tensor raw, rho;
  bool lean = false;
};
/// Rotary positions of packed heads: cos and sin [length, dim/2]; undefined: none. With `kept`, which the projection
/// fills, q, k and v are normed before, with these gains.
struct Turn {
  at::Tensor cos, sin;
  int64_t heads = 0, kv_heads = 0;
  std::vector<at::Tensor> gains = {};  // of q, k, v
  double eps = 0;
  std::shared_ptr<KeptHeads> kept = {};
};
// The projection [B, length, (heads + 2 kv heads)·dim] of x [B, length, k], (normed and) turned; whoever attends to it
// hands back the gradient of the projection as it was before (ops/attention.h). The first is below autograd.
at::Tensor gemm_project_turned(const at::Tensor& x, const at::Tensor& weight, const Turn& turn);
at::Tensor project_turned(const at::Tensor& x, const at::Tensor& weight, const Turn& turn);

/// gemm_qkv_rope by a product and a pass over it.
at::Tensor gemm_qkv_rope_apart(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos,
                               const at::Tensor& sin, int64_t heads, int64_t kv_heads, int64_t length);

/// Throws unless the sizes fit.
void gemm_qkv_rope_check(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                         int64_t heads, int64_t kv_heads, int64_t length);

}  // namespace siamese
