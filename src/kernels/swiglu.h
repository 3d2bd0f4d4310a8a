// SwiGLU on rows p = [a, b]: out = a·b·σ(b).
// Backward: ga = g·b·σ(b);  gb = g·a·σ(b)·(1 + b·(1 - σ(b))).  p is kept, nothing else.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace siamese::kernels {

/// p [rows, 2·width], out [rows, width]; rows begin … end-1.
template <class T>
void swiglu_forward(const T* p, T* out, int64_t width, int64_t begin, int64_t end);

/// g [rows, width] -> gp [rows, 2·width].
template <class T>
void swiglu_backward(const T* p, const T* g, T* gp, int64_t width, int64_t begin, int64_t end);

}  // namespace siamese::kernels
