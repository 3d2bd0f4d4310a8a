// The backward pass of weighted SwiGLU rows in one pass: for a row p = [a, b] with weight w and u the gradient of
// w·h, h = a·b·σ(b), before the weight:
//   g_w = ⟨u, h⟩;   wh = w·h;   g_a = w·u·b·σ(b);   g_b = w·u·a·σ(b)·(1 + b·(1 - σ(b)))
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace siamese::kernels {

/// p, gp [rows, 2·width], u, wh [rows, width], w, gw [rows]; rows begin … end-1.
template <class T>
void swiglu_rows_backward(const T* p, const T* u, const compute_t<T>* w, T* gp, T* wh, compute_t<T>* gw, int64_t width,
                          int64_t begin, int64_t end);

}  // namespace siamese::kernels
