// The loops of SwiGLU; compiled once per instruction set.
#include "kernels/exp.h"
#include "kernels/swiglu.h"

namespace siamese::kernels::SIAMESE_SIMD {

template <class T>
void swiglu(const T* p, T* out, int64_t width, int64_t begin, int64_t end) {
  using C = compute_t<T>;
  for (int64_t row = begin; row < end; ++row) {
    const T *a = p + row * 2 * width, *b = a + width;
    T* o = out + row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const C gate = load<C>(b[i]);
      o[i] = store<T>(load<C>(a[i]) * gate * sigmoid(gate));
    }
  }
}

template <class T>
void swiglu_grad(const T* p, const T* g, T* gp, int64_t width, int64_t begin, int64_t end) {
  using C = compute_t<T>;
  for (int64_t row = begin; row < end; ++row) {
    const T *a = p + row * 2 * width, *b = a + width, *up = g + row * width;
    T *ga = gp + row * 2 * width, *gb = ga + width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const C gate = load<C>(b[i]), s = sigmoid(gate), gi = load<C>(up[i]);
      ga[i] = store<T>(gi * gate * s);
      gb[i] = store<T>(gi * load<C>(a[i]) * s * (C(1) + gate * (C(1) - s)));
    }
  }
}

template void swiglu(const float*, float*, int64_t, int64_t, int64_t);
template void swiglu(const double*, double*, int64_t, int64_t, int64_t);
template void swiglu(const bf16*, bf16*, int64_t, int64_t, int64_t);
template void swiglu_grad(const float*, const float*, float*, int64_t, int64_t, int64_t);
template void swiglu_grad(const double*, const double*, double*, int64_t, int64_t, int64_t);
template void swiglu_grad(const bf16*, const bf16*, bf16*, int64_t, int64_t, int64_t);

}  // namespace siamese::kernels::SIAMESE_SIMD
