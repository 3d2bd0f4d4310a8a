#include "kernels/gather_sum.h"

#include "kernels/cpu_level.h"

namespace siamese::kernels {

#define SIAMESE_DECLARE(level)                                                                                  \
  namespace level {                                                                                             \
  template <class T>                                                                                            \
  void gather_rows(const T*, const int64_t*, const compute_t<T>*, T*, compute_t<T>*, int64_t, int64_t, int64_t, \
                   int64_t);                                                                                    \
  }
SIAMESE_DECLARE(base)
SIAMESE_DECLARE(v3)
SIAMESE_DECLARE(v4)

template <class T>
void gather_sum(const T* rows, const int64_t* place, const compute_t<T>* weights, T* out, compute_t<T>* sums, int64_t k,
                int64_t width, int64_t begin, int64_t end) {
  SIAMESE_DISPATCH(gather_rows, rows, place, weights, out, sums, k, width, begin, end)
}

template void gather_sum(const float*, const int64_t*, const float*, float*, float*, int64_t, int64_t, int64_t,
                         int64_t);
template void gather_sum(const double*, const int64_t*, const double*, double*, double*, int64_t, int64_t, int64_t,
                         int64_t);
template void gather_sum(const bf16*, const int64_t*, const float*, bf16*, float*, int64_t, int64_t, int64_t, int64_t);

}  // namespace siamese::kernels
