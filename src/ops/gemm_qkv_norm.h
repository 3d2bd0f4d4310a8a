// The projection before attention with the norms of q, k and v and rotary positions in it, as a registered operator
// `siamese::gemm_qkv_norm`: RMSNorm of every head, with gains. Where there is a kernel (Hopper, bf16, heads of 64;
// kernels/cuda/gemm_qkv_norm.h) the product leaves the tensor cores finished; elsewhere it is a product and plain
// operations. What attention's backward pass needs to go through the norms comes along (ops/attention_norms.h).
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

struct QkvNormed {
  at::Tensor out;  // [m, (heads + 2 kv heads)·dim]: normed, q and k turned
  at::Tensor raw;  // [m, (heads + kv heads)·dim]: q and k as the product gave them, unless out tells
  at::Tensor rho;  // [heads + 2 kv heads, m] fp32: (mean(x²) + eps)^(-1/2)
};

/// x [m, k], weight [(heads + 2 kv heads)·dim, k], gains of q, k and v [dim], cos and sin [length or more, dim/2]. Row
/// t stands at position t mod length; m is a multiple of length. raw and rho have no gradient. A gain of 0 counts as
/// 2⁻⁶⁰. `lean`: raw may be left unwritten where out tells it (gains_tell), which takes angles with cos² + sin² = 1.
QkvNormed gemm_qkv_norm(const at::Tensor& x, const at::Tensor& weight, at::TensorList gains, const at::Tensor& cos,
                        const at::Tensor& sin, double eps, int64_t heads, int64_t kv_heads, int64_t length,
                        bool lean = false);

/// The same by a product and plain operations.
QkvNormed gemm_qkv_norm_apart(const at::Tensor& x, const at::Tensor& weight, at::TensorList gains,
                              const at::Tensor& cos, const at::Tensor& sin, double eps, int64_t heads, int64_t kv_heads,
                              int64_t length);

/// A gain as the norms inside other operators take it.
at::Tensor head_gain(const at::Tensor& gain, at::ScalarType type);
/// Whether what R(γ·x̂) is rounded to tells x̂ of q and k (kernels/cuda/head_gain.cuh): a truth value on their device.
at::Tensor gains_tell(at::TensorList gains);

}  // namespace siamese
