#include "kernels/cross_entropy.h"

#include "kernels/cpu_level.h"

namespace siamese::kernels {

#define SIAMESE_DECLARE(level)                                                           \
  namespace level {                                                                      \
  template <class T>                                                                     \
  void cross_entropy(const CrossEntropy<T>&, int64_t begin, int64_t end, compute_t<T>*); \
  }
SIAMESE_DECLARE(base)
SIAMESE_DECLARE(v3)
SIAMESE_DECLARE(v4)

template <class T>
void cross_entropy_rows(const CrossEntropy<T>& p, int64_t begin, int64_t end, compute_t<T>* scratch) {
  SIAMESE_DISPATCH(cross_entropy, p, begin, end, scratch)
}

template void cross_entropy_rows(const CrossEntropy<float>&, int64_t, int64_t, float*);
template void cross_entropy_rows(const CrossEntropy<double>&, int64_t, int64_t, double*);
template void cross_entropy_rows(const CrossEntropy<bf16>&, int64_t, int64_t, float*);

}  // namespace siamese::kernels
