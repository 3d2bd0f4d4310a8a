// How a mixture's rows lie where kernels take them (kernels/cuda/experts.h): each expert's begin at a multiple of
// kExpertAlign, and none has fewer.
#pragma once

#include <cstdint>

namespace siamese::kernels {

constexpr int kExpertAlign = 8, kMostExperts = 512;

/// Rows for `slots` choices, whoever was chosen.
inline int64_t expert_rows_bound(int64_t slots, int64_t experts) { return slots + kExpertAlign * experts; }

/// Whether there are kernels for experts of these sizes; `hidden`: both halves of SwiGLU's input.
inline bool experts_fit_kernels(int64_t experts, int64_t hidden, int64_t d) {
  return experts <= kMostExperts && hidden % 16 == 0 && d % 8 == 0;
}

}  // namespace siamese::kernels
