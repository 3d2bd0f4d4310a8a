// The two libraries that attend on a GPU, cuDNN and flash attention, in one shape: causal attention on views of the
// packed projection, forward and backward. Which of them serves a model: ops/attention_choice.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace siamese {

struct Heads {
  at::Tensor q, k, v;  // [B, T, heads, dim], of a packed tensor views
};
Heads heads_of(const at::Tensor& packed, int64_t heads, int64_t kv_heads);

/// What a forward pass of either library leaves for its backward pass.
struct Attended {
  at::Tensor out;  // [B, T, heads, dim]
  at::Tensor log_sums, seed, offset;
};

Attended cudnn_forward(const Heads& h);
Heads cudnn_backward(const at::Tensor& g, const Heads& h, const Attended& a);

/// `ends` undefined: each row is one sequence; otherwise the tokens of all rows are cut there (ops/attention.h).
Attended flash_forward(const Heads& h, const at::Tensor& ends, int64_t longest);
Heads flash_backward(const at::Tensor& g, const Heads& h, const Attended& a, const at::Tensor& ends, int64_t longest);

}  // namespace siamese
