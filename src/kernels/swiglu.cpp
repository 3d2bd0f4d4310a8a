#include "kernels/swiglu.h"

#include "kernels/cpu_level.h"

namespace siamese::kernels {

#define SIAMESE_DECLARE(level)                                         \
  namespace level {                                                    \
  template <class T>                                                   \
  void swiglu(const T*, T*, int64_t, int64_t, int64_t);                \
  template <class T>                                                   \
  void swiglu_grad(const T*, const T*, T*, int64_t, int64_t, int64_t); \
  }
SIAMESE_DECLARE(base)
SIAMESE_DECLARE(v3)
SIAMESE_DECLARE(v4)

template <class T>
void swiglu_forward(const T* p, T* out, int64_t width, int64_t begin, int64_t end) {
  SIAMESE_DISPATCH(swiglu, p, out, width, begin, end)
}

template <class T>
void swiglu_backward(const T* p, const T* g, T* gp, int64_t width, int64_t begin, int64_t end) {
  SIAMESE_DISPATCH(swiglu_grad, p, g, gp, width, begin, end)
}

template void swiglu_forward(const float*, float*, int64_t, int64_t, int64_t);
template void swiglu_forward(const double*, double*, int64_t, int64_t, int64_t);
template void swiglu_forward(const bf16*, bf16*, int64_t, int64_t, int64_t);
template void swiglu_backward(const float*, const float*, float*, int64_t, int64_t, int64_t);
template void swiglu_backward(const double*, const double*, double*, int64_t, int64_t, int64_t);
template void swiglu_backward(const bf16*, const bf16*, bf16*, int64_t, int64_t, int64_t);

}  // namespace siamese::kernels
