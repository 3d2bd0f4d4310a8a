// The loops of RoPE; compiled once per instruction set.
#include "kernels/rope.h"

namespace siamese::kernels::SIAMESE_SIMD {

template <class T>
void rotate(const RopeCall<T>& p, int64_t begin, int64_t end) {
  using C = compute_t<T>;
  const int64_t half = p.dim / 2;
  for (int64_t token = begin; token < end; ++token) {
    const int64_t position = token % p.length;
    const C *cos = p.cos + position * half, *sin = p.sin + position * half;
    const T* in = p.in + (token / p.length) * p.batch_stride + position * p.token_stride;
    T* out = p.out + token * p.heads * p.dim;
    for (int64_t h = 0; h < p.heads; ++h, in += p.head_stride, out += p.dim) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const C a = load<C>(in[i]), b = load<C>(in[i + half]), s = p.sign * sin[i];
        out[i] = store<T>(a * cos[i] - b * s);
        out[i + half] = store<T>(b * cos[i] + a * s);
      }
    }
  }
}

template void rotate(const RopeCall<float>&, int64_t, int64_t);
template void rotate(const RopeCall<double>&, int64_t, int64_t);
template void rotate(const RopeCall<bf16>&, int64_t, int64_t);

}  // namespace siamese::kernels::SIAMESE_SIMD
