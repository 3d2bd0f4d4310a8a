// Attention of heads of 64 on Hopper, causal or not, deterministic in both passes. With S = c·QKᵀ (under the causal
// mask), P = softmax(S) and D = Σ G⊙O by rows:
//   forward:   O = P·V, and the logarithms of the rows' sums
//   backward:  P again from them;  g_V = Pᵀ·G,  dS = P⊙(G·Vᵀ - D),  g_Q = c·dS·K,  g_K = c·dSᵀ·Q
// Every sum has one order. Causal attention with keys for every head (enough heads, rows of up to 16,384) takes one
// pass over P, in which g_Q's sums go from block to block; other attention computes P twice, once by rows for g_Q and
// once by columns for g_K and g_V. P and dS are rounded to bf16 before they are multiplied.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace siamese::kernels {

/// [batch, length, heads, 64] bf16: `stride` values between tokens, heads side by side.
struct AttentionTensor {
  const void* data = nullptr;
  int64_t stride = 0;
};

struct AttentionCuda {
  int batch = 0, heads = 0, kv_heads = 0, length = 0;
  bool causal = true;
  float scale = 0.125f;  // c
  AttentionTensor q, k, v, out;
  float* log_sums = nullptr;  // [batch, heads, attention_rows(length)], base 2
  // backward
  AttentionTensor g, g_q, g_k, g_v;
  float* dots = nullptr;           // D, like log_sums
  const float* natural = nullptr;  // [batch, heads, length], base e, if another library's: log_sums from them
  const float *cos = nullptr, *sin = nullptr;  // [length, 32]: g_q and g_k are turned back by these angles, if given
  void* scratch = nullptr;                     // attention_scratch() bytes, at a multiple of 16
  // In one pass alone: q, k, v are R(γ·ρ·x), and their gradients are those of x (attention_norms.cuh).
  AttentionTensor raw_q, raw_k;   // x
  bool lean = false;              // x of q and k is not touched where their gains are alike (head_gain.cuh)
  const void* gain[3] = {};       // of q, k, v, [64] bf16
  const float* rho = nullptr;     // [3·heads, batch·length]
  float* gain_partial = nullptr;  // [attention_gain_parts(), 3, 64]: sums of the gains' gradients
};

/// Rows of log_sums and dots: length up to a multiple of 128.
int64_t attention_rows(int64_t length);
/// Bytes of memory that the backward pass needs to take one pass; 0 where it takes two.
int64_t attention_scratch(const AttentionCuda& call);
/// Thread blocks of that one pass, each with a part of the gains' gradients, where it can go through norms; or 0.
int attention_gain_parts(const AttentionCuda& call);
/// Whether this device can: compute capability 9.0.
bool attention_hopper_serves();

cudaError_t attention_forward_hopper(const AttentionCuda& call, cudaStream_t stream);
cudaError_t attention_backward_hopper(const AttentionCuda& call, cudaStream_t stream);

}  // namespace siamese::kernels
