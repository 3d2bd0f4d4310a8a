// Attention's backward pass together with that of the norms of q, k and v and of the rotary positions before it, as a
// registered operator `siamese::attention_norms_backward`: from the gradient of attention's output to that of the
// projection, without a pass between them (kernels/cuda/attention_norms.cuh). It follows ops/gemm_qkv_norm.h and any
// causal attention on what that gave. On a CPU: plain operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/attention_choice.h"

namespace siamese {

struct AttentionNorms {
  at::Tensor cos, sin;  // [T, dim/2]
  at::Tensor gain[3];   // of q, k, v, [dim]
  at::Tensor raw, rho;  // of gemm_qkv_norm
  bool lean = false;    // as gemm_qkv_norm was told: raw is not read where out tells it, and cos² + sin² = 1
};

/// g, out [B, T, heads, dim]; qkv [B, T, 3 heads, dim] as attention saw it; log_sums as in ops/own_attention.h. Returns
/// the gradient of the projection, like qkv, and those of the gains [3, dim].
std::tuple<at::Tensor, at::Tensor> attention_norms_backward(const at::Tensor& g, const at::Tensor& qkv,
                                                            const at::Tensor& out, const at::Tensor& log_sums,
                                                            bool natural, const AttentionNorms& norms);

/// From g_y, the gradient of qkv as attention saw it, on, by plain operations.
std::tuple<at::Tensor, at::Tensor> norms_backward_plain(const at::Tensor& g_y, const at::Tensor& qkv,
                                                        const at::Tensor& cos, const at::Tensor& sin,
                                                        at::TensorList gains, const at::Tensor& raw,
                                                        const at::Tensor& rho, bool lean);
/// Throws unless they fit together.
void attention_norms_check(const at::Tensor& qkv, at::TensorList gains, const at::Tensor& raw, const at::Tensor& rho);

/// The largest error of this way, forward by our own attention, against plain operations in fp32 on an example: heads
/// of 64, as many tokens as the kernels want.
double attention_norms_error(int64_t heads, at::Device device);
/// Whether that is rounding; asked for the first time, it is tried.
bool attention_norms_right(int64_t heads, at::Device device);

/// Whether training takes this way where there are kernels for it; at first yes, unless SIAMESE_NORMS_INSIDE is 0.
bool norms_inside();
/// Whether it does for B x T tokens with a projection from k columns, if all of q, k and v are normed.
bool norms_inside_serve(int64_t batch, int64_t length, const AttentionShape& shape, int64_t k, at::Device device);
void set_norms_inside(bool yes);
/// Whether it is lean then: where the gains of q and k are alike, their projection goes to attention alone, and is
/// neither written nor fetched as it was (its place stays). If SIAMESE_LEAN_NORMS is 1: it has not run on a GPU yet.
bool lean_norms();
void set_lean_norms(bool yes);

}  // namespace siamese
