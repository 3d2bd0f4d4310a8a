// The loop of gather_sum; compiled once per instruction set.
#include "kernels/gather_sum.h"

namespace siamese::kernels::SIAMESE_SIMD {

template <class T>
void gather_rows(const T* rows, const int64_t* place, const compute_t<T>* weights, T* out, compute_t<T>* sums,
                 int64_t k, int64_t width, int64_t begin, int64_t end) {
  using C = compute_t<T>;
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t i = 0; i < width; ++i) sums[i] = C(0);
    for (int64_t slot = t * k; slot < (t + 1) * k; ++slot) {
      if (place[slot] < 0) continue;
      const T* row = rows + place[slot] * width;
      const C w = weights == nullptr ? C(1) : weights[slot];
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) sums[i] += w * load<C>(row[i]);
    }
    T* o = out + t * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) o[i] = store<T>(sums[i]);
  }
}

template void gather_rows(const float*, const int64_t*, const float*, float*, float*, int64_t, int64_t, int64_t,
                          int64_t);
template void gather_rows(const double*, const int64_t*, const double*, double*, double*, int64_t, int64_t, int64_t,
                          int64_t);
template void gather_rows(const bf16*, const int64_t*, const float*, bf16*, float*, int64_t, int64_t, int64_t, int64_t);

}  // namespace siamese::kernels::SIAMESE_SIMD
