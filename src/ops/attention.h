// Causal self-attention on the GPU from the packed projection to the heads' output: norms and rotary positions in one
// pass (kernels/cuda/qkv_rope.h), then cuDNN's, flash or our own attention (ops/attention_choice.h) on views of the
// packed tensor, no copies. Kept for the backward pass: the packed tensor as attention saw it (the raw one too where
// heads are normed, or what the projection kept of it), output, log-sums.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/stream_step.h"

namespace siamese {

struct AttentionCore {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  Norm norm[3];         // of q, k, v, per head; off: none
  at::Tensor cos, sin;  // [T, head_dim/2] fp32
  /// Documents packed into the B·T tokens: ends [documents + 1] int32 on the device, beginning with 0, and the longest.
  at::Tensor ends;
  int64_t longest = 0;
  /// qkv comes with its rotary positions (ops/gemm_qkv_rope.h), no norms; its gradient is that before them all the
  /// same.
  bool turned = false;
  /// It comes normed, too; what was kept of it (ops/gemm_qkv_norm.h).
  KeptHeads kept = {};
};

/// Whether the GPU path covers it (bf16, head sizes 16 … 256 that are powers of two).
bool attention_core_fits(const at::Tensor& qkv, const AttentionCore& core);
/// Whether B x T tokens may come normed and turned from the product with `weight`: RMSNorm of every head with gains,
/// our own backward pass in one pass, and all of it right on an example (ops/attention_norms.h).
bool attention_takes_normed(int64_t batch, int64_t length, const AttentionCore& core, const at::Tensor& weight);
/// qkv [B, T, (heads + 2 kv heads)·head_dim], which may be overwritten -> [B, T, heads·head_dim].
at::Tensor attention_core(const at::Tensor& qkv, const AttentionCore& core);

}  // namespace siamese
