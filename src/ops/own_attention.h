// Our own attention (kernels/cuda/attention_hopper.h) as operators `siamese::attention` and
// `siamese::attention_backward`: deterministic in both passes, and the backward pass may follow another library's
// forward pass and turn the gradients of rotary positions back on its way. On a CPU: plain operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace siamese {

/// Whether the GPU's kernels serve these heads on this device: Hopper, bf16, heads of 64.
bool own_attention_fits(int64_t head_dim, at::Device device);

/// qkv [B, T, heads + 2 kv heads, dim] -> out [B, T, heads, dim] and the logarithms, base 2, of the rows' sums.
std::tuple<at::Tensor, at::Tensor> own_attention(const at::Tensor& qkv, int64_t heads, int64_t kv_heads,
                                                 bool causal = true);

/// The gradient of qkv for that of out, g. `natural`: the logarithms are base e, [B, heads, T], another library's. With
/// cos and sin [T, dim/2], qkv had been turned by these angles, and the gradient is that before.
at::Tensor own_attention_backward(const at::Tensor& g, const at::Tensor& qkv, const at::Tensor& out,
                                  const at::Tensor& log_sums, bool natural, const at::Tensor& cos,
                                  const at::Tensor& sin, int64_t heads, int64_t kv_heads, bool causal = true);

}  // namespace siamese
