#include "kernels/stream_step.h"

#include "kernels/cpu_level.h"

namespace siamese::kernels {

#define SIAMESE_DECLARE(level)                                      \
  namespace level {                                                 \
  template <class S, class Z, class C>                              \
  void forward(const StreamStep<S, Z>&, int64_t, int64_t, C*);      \
  template <class S, class Z, class C>                              \
  void backward(const StreamStep<S, Z>&, int64_t, int64_t, C*, C*); \
  }
SIAMESE_DECLARE(base)
SIAMESE_DECLARE(v3)
SIAMESE_DECLARE(v4)

template <class S, class Z>
void stream_step_forward(const StreamStep<S, Z>& step, int64_t begin, int64_t end, compute_t<Z>* scratch) {
  SIAMESE_DISPATCH(forward, step, begin, end, scratch)
}

template <class S, class Z>
void stream_step_backward(const StreamStep<S, Z>& step, int64_t begin, int64_t end, compute_t<Z>* scratch,
                          compute_t<Z>* columns) {
  SIAMESE_DISPATCH(backward, step, begin, end, scratch, columns)
}

template void stream_step_forward(const StreamStep<float, float>&, int64_t, int64_t, float*);
template void stream_step_forward(const StreamStep<double, double>&, int64_t, int64_t, double*);
template void stream_step_forward(const StreamStep<bf16, bf16>&, int64_t, int64_t, float*);
template void stream_step_forward(const StreamStep<float, bf16>&, int64_t, int64_t, float*);
template void stream_step_backward(const StreamStep<float, float>&, int64_t, int64_t, float*, float*);
template void stream_step_backward(const StreamStep<double, double>&, int64_t, int64_t, double*, double*);
template void stream_step_backward(const StreamStep<bf16, bf16>&, int64_t, int64_t, float*, float*);
template void stream_step_backward(const StreamStep<float, bf16>&, int64_t, int64_t, float*, float*);

}  // namespace siamese::kernels
