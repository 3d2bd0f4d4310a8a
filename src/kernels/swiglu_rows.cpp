#include "kernels/swiglu_rows.h"

#include "kernels/cpu_level.h"

namespace siamese::kernels {

#define SIAMESE_DECLARE(level)                                                                                 \
  namespace level {                                                                                            \
  template <class T>                                                                                           \
  void swiglu_rows(const T*, const T*, const compute_t<T>*, T*, T*, compute_t<T>*, int64_t, int64_t, int64_t); \
  }
SIAMESE_DECLARE(base)
SIAMESE_DECLARE(v3)
SIAMESE_DECLARE(v4)

template <class T>
void swiglu_rows_backward(const T* p, const T* u, const compute_t<T>* w, T* gp, T* wh, compute_t<T>* gw, int64_t width,
                          int64_t begin, int64_t end) {
  SIAMESE_DISPATCH(swiglu_rows, p, u, w, gp, wh, gw, width, begin, end)
}

template void swiglu_rows_backward(const float*, const float*, const float*, float*, float*, float*, int64_t, int64_t,
                                   int64_t);
template void swiglu_rows_backward(const double*, const double*, const double*, double*, double*, double*, int64_t,
                                   int64_t, int64_t);
template void swiglu_rows_backward(const bf16*, const bf16*, const float*, bf16*, bf16*, float*, int64_t, int64_t,
                                   int64_t);

}  // namespace siamese::kernels
