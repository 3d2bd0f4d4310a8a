// The loop of swiglu_rows_backward; compiled once per instruction set.
#include "kernels/exp.h"
#include "kernels/swiglu_rows.h"

namespace siamese::kernels::SIAMESE_SIMD {

template <class T>
void swiglu_rows(const T* p, const T* u, const compute_t<T>* w, T* gp, T* wh, compute_t<T>* gw, int64_t width,
                 int64_t begin, int64_t end) {
  using C = compute_t<T>;
  for (int64_t row = begin; row < end; ++row) {
    const T *a = p + row * 2 * width, *b = a + width, *up = u + row * width;
    T *ga = gp + row * 2 * width, *gb = ga + width, *out = wh + row * width;
    const C weight = w[row];
    C sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) {
      const C left = load<C>(a[i]), gate = load<C>(b[i]), s = sigmoid(gate), gi = load<C>(up[i]);
      const C h = left * gate * s;
      sum += gi * h;
      out[i] = store<T>(weight * h);
      ga[i] = store<T>(weight * gi * gate * s);
      gb[i] = store<T>(weight * gi * left * s * (C(1) + gate * (C(1) - s)));
    }
    gw[row] = sum;
  }
}

template void swiglu_rows(const float*, const float*, const float*, float*, float*, float*, int64_t, int64_t, int64_t);
template void swiglu_rows(const double*, const double*, const double*, double*, double*, double*, int64_t, int64_t,
                          int64_t);
template void swiglu_rows(const bf16*, const bf16*, const float*, bf16*, bf16*, float*, int64_t, int64_t, int64_t);

}  // namespace siamese::kernels::SIAMESE_SIMD
