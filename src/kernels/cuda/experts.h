// A mixture's rows on the GPU: sorted by expert in one deterministic pass, spread, weighed and added up again. With
// N = T·k slots (token t's choice j is slot t·k + j) rows are
//   R = N + kExpertAlign·E of them, in the order of the experts, each expert's beginning at a multiple of kExpertAlign
//   and at least that many, so that products by groups meet neither an odd border nor an empty group;
// a row nobody has is zero (token and slot -1). Nothing here waits for the host: all sizes are known beforehand.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/expert_layout.h"

namespace siamese::kernels {

struct ExpertSortCuda {
  const int64_t* chosen = nullptr;  // [T, k]
  int64_t slots = 0;                // T·k
  int k = 1, experts = 0;
  int64_t capacity = 0;                       // rows an expert takes, first come first served; 0: all
  int32_t *token = nullptr, *slot = nullptr;  // [R]
  int32_t* place = nullptr;                   // [T·k]: the row of a slot; -1: dropped
  int32_t* ends = nullptr;                    // [E]: where an expert's rows end, aligned
  int64_t* load = nullptr;                    // [E]: slots that chose it
  int32_t* before = nullptr;                  // scratch [chunks, E], see expert_sort_chunks
};
int64_t expert_sort_chunks(int64_t slots);
/// Within an expert rows lie in the order of their slots.
cudaError_t expert_sort_cuda(const ExpertSortCuda& call, cudaStream_t stream);

/// out[place[t, j]] = x[t], and 0 where `token` is -1; rows of d values in bf16, d a multiple of 8.
cudaError_t spread_rows_cuda(const void* x, const int32_t* place, const int32_t* token, void* out, int64_t tokens,
                             int k, int64_t rows, int64_t d, cudaStream_t stream);
/// out[t] = Σ_j rows[place[t, j]] in the order of j, in fp32.
cudaError_t gather_sum_cuda(const void* rows, const int32_t* place, void* out, int64_t tokens, int k, int64_t d,
                            cudaStream_t stream);

/// p [R, 2·width] -> weight·swiglu(p) [R, width]; weights [T·k] fp32.
cudaError_t weighted_swiglu_cuda(const void* p, const float* weights, const int32_t* slot, void* out, int64_t rows,
                                 int64_t width, cudaStream_t stream);
/// u: the gradient of swiglu's output before the weight. gp as p; `out` weight·swiglu(p) again; g_weights [T·k], which
/// must be 0 where a slot was dropped.
cudaError_t weighted_swiglu_backward_cuda(const void* p, const void* u, const float* weights, const int32_t* slot,
                                          void* gp, void* out, float* g_weights, int64_t rows, int64_t width,
                                          cudaStream_t stream);

}  // namespace siamese::kernels
