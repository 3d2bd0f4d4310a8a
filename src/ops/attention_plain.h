// Attention by plain operations, in fp32 (fp64 for fp64): what every library and kernel is held to, and what a
// CPU does for `siamese::attention`. One key head at a time: the scores of all heads may be hundreds of megabytes.
#pragma once

#include "ops/attention_library.h"

namespace siamese {

struct PlainAttended {
  at::Tensor out;       // [B, T, heads, dim]
  at::Tensor log_sums;  // [B, heads, T], natural logarithms
};
PlainAttended attention_plain(const Heads& h, bool causal = true);

/// The gradients of q, k, v for that of out, g.
Heads attention_plain_backward(const at::Tensor& g, const Heads& h, const at::Tensor& out, bool causal = true);

}  // namespace siamese
