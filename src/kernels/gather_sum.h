// Rows back to their tokens: out[t] = Σ_j weight[t·k + j] · rows[place[t·k + j]], j in order; a place of -1 adds
// nothing.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace siamese::kernels {

/// rows [R, width], place [T·k], weights [T·k] or null (1) -> out [T, width]; tokens begin … end-1. Sums are kept in
/// fp32 under bf16: `sums` is room for `width` of them.
template <class T>
void gather_sum(const T* rows, const int64_t* place, const compute_t<T>* weights, T* out, compute_t<T>* sums, int64_t k,
                int64_t width, int64_t begin, int64_t end);

}  // namespace siamese::kernels
