// Norms on q, k and v and rotary positions in one pass over the packed projection [tokens, (H + 2K)·D]: H query heads,
// K key heads, K value heads.
//   q' = R(N_q(q)), k' = R(N_k(k)), v' = N_v(v);  R rotates the pairs (i, i + D/2): [a·cos - b·sin, b·cos + a·sin]
// Each norm may be off; its statistics are over one head. Backward: g → Rᵀ (the opposite angle) → Nᵀ, with x̂ rebuilt
// from the raw projection, and the gradients of the gains by column sums in two stages (stream_step.h).
// A head is handled by D/8 neighbouring lanes of a warp, so D is 16, 32, 64, 128 or 256. With norms, bf16 heads of 64
// and 128 have kernels of their own (qkv_rope_rows.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/stream_step.h"

namespace siamese::kernels {

enum QkvPart { kQuery, kKey, kValue };

struct QkvRope {
  bool bf16 = true;                // else fp32
  int64_t tokens = 0, length = 0;  // token t stands at position t mod length
  int heads = 0, kv_heads = 0, dim = 0;
  bool layer = false, norm[3] = {};  // LayerNorm instead of RMSNorm; which of q, k, v are normed
  float eps = 0;
  const void *gain[3] = {}, *bias[3] = {};     // [dim] or null
  const float *cos = nullptr, *sin = nullptr;  // [length, dim/2]
  const void* in = nullptr;                    // raw projection
  void* out = nullptr;                         // forward: same layout, may be `in` where nothing is normed
  // backward: gradients of q', k', v' [B, T, heads, dim] by strides; out is the gradient of the projection
  const void* g[3] = {};
  int64_t batch_stride[3] = {}, token_stride[3] = {}, head_stride[3] = {};
  float* partial = nullptr;  // [parts, 6, dim]: gains of q, k, v, then biases
};

bool qkv_rope_fits(int64_t dim);
cudaError_t qkv_rope_forward_cuda(const QkvRope& call, cudaStream_t stream);
cudaError_t qkv_rope_parts(const QkvRope& call, StepParts* out);
cudaError_t qkv_rope_backward_cuda(const QkvRope& call, const StepParts& parts, cudaStream_t stream);

}  // namespace siamese::kernels
