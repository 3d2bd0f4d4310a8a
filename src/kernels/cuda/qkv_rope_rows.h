// The pass before attention with norms, for bf16 heads of 64 or 128 values (qkv_rope_rows.cuh); qkv_rope.cu has the
// rest.
#pragma once

#include "kernels/cuda/qkv_rope.h"

namespace siamese::kernels {

/// Both return false where the call is not theirs; else it is done, or *error says why not.
bool qkv_rope_forward_by_rows(const QkvRope& call, cudaStream_t stream, cudaError_t* error);
/// parts->parts == 0: only asks how many there are.
bool qkv_rope_backward_by_rows(const QkvRope& call, StepParts* parts, cudaStream_t stream, cudaError_t* error);

}  // namespace siamese::kernels
