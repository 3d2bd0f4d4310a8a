// Rotary positions by halves on one head vector t = [a, b]: out = [a·cos - b·sin, b·cos + a·sin].
// The backward pass is the rotation by the opposite angle (sign = -1).
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace siamese::kernels {

template <class T>
struct RopeCall {
  const T* in = nullptr;                             // [B, length, heads, dim] by strides, dim contiguous
  T* out = nullptr;                                  // [B, length, heads, dim] contiguous
  const compute_t<T>*cos = nullptr, *sin = nullptr;  // [length, dim/2]
  int64_t length = 0, heads = 0, dim = 0;
  int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
  compute_t<T> sign = 1;
};

/// Tokens begin … end-1 of B·length.
template <class T>
void rope(const RopeCall<T>& call, int64_t begin, int64_t end);

}  // namespace siamese::kernels
