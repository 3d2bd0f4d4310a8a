// The pass before attention as registered operators: norms on q, k, v and rotary positions on the packed projection.
// `siamese::qkv_rope` is differentiable, `qkv_rope_out` writes in place and `qkv_rope_backward` is its gradient; all
// three can be traced. The angles have no gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/attention.h"

namespace siamese {

/// Flags of the operators.
enum QkvFlag : int64_t { kQkvLayer = 1, kQkvNormQ = 2 };  // shifted left by 0, 1, 2 for q, k, v
int64_t qkv_flags(const AttentionCore& core);
double qkv_eps(const AttentionCore& core);
/// Gains of q, k, v, then biases; undefined where absent.
std::vector<at::Tensor> qkv_affine(const AttentionCore& core);
bool qkv_has_cuda();

/// Writes into `out`, which may be `qkv` where nothing is normed.
void qkv_rope_out(at::Tensor out, const at::Tensor& qkv, const AttentionCore& core);
/// Gradient of the projection, then those of the gains and biases; q, k, v gradients [B, T, heads, dim] by strides.
std::vector<at::Tensor> qkv_rope_backward(const at::Tensor& gq, const at::Tensor& gk, const at::Tensor& gv,
                                          const at::Tensor& qkv, const AttentionCore& core);
/// Both by LibTorch's operations: [B, T, heads + 2 kv heads, dim] from the same packed shape.
at::Tensor qkv_rope_plain(const at::Tensor& qkv, const AttentionCore& core);
std::vector<at::Tensor> qkv_rope_backward_plain(const at::Tensor& gq, const at::Tensor& gk, const at::Tensor& gv,
                                                const at::Tensor& qkv, const AttentionCore& core);

}  // namespace siamese
