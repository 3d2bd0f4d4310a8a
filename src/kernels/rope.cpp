#include "kernels/rope.h"

#include "kernels/cpu_level.h"

namespace siamese::kernels {

namespace base {
template <class T>
void rotate(const RopeCall<T>&, int64_t, int64_t);
}
namespace v3 {
template <class T>
void rotate(const RopeCall<T>&, int64_t, int64_t);
}
namespace v4 {
template <class T>
void rotate(const RopeCall<T>&, int64_t, int64_t);
}

template <class T>
void rope(const RopeCall<T>& call, int64_t begin, int64_t end) {
  SIAMESE_DISPATCH(rotate, call, begin, end)
}

template void rope(const RopeCall<float>&, int64_t, int64_t);
template void rope(const RopeCall<double>&, int64_t, int64_t);
template void rope(const RopeCall<bf16>&, int64_t, int64_t);

}  // namespace siamese::kernels
