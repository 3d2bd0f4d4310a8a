// The loops of the cross entropy; compiled once per instruction set.
#include "kernels/cross_entropy.h"

#include <cmath>
#include <type_traits>

#include "kernels/exp.h"

namespace siamese::kernels::SIAMESE_SIMD {

/// NaN is passed over here; the sum of exponentials keeps it.
template <class C>
C largest(const C* v, int64_t n) {
  C max = -static_cast<C>(HUGE_VAL);
#pragma omp simd reduction(max : max)
  for (int64_t i = 0; i < n; ++i) max = v[i] > max ? v[i] : max;
  return max;
}

template <class C>
C sum_of_exp(const C* v, int64_t n, C max) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += fast_exp(v[i] - max);
  return sum;
}

/// The same, and the exponentials stay in v.
template <class C>
C exponentiate(C* v, int64_t n, C max) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const C e = fast_exp(v[i] - max);
    v[i] = e;
    sum += e;
  }
  return sum;
}

template <class T>
void cross_entropy(const CrossEntropy<T>& p, int64_t begin, int64_t end, compute_t<T>* scratch) {
  using C = compute_t<T>;
  for (int64_t row = begin; row < end; ++row) {
    T* const z = p.logits + row * p.vocab;
    C* v = scratch;
    if constexpr (std::is_same_v<T, C>) {
      v = z;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < p.vocab; ++i) v[i] = load<C>(z[i]);
    }
    const int64_t target = p.targets[row];
    const bool counts = target != p.ignore;
    const C right = counts ? v[target] : C(0), max = largest(v, p.vocab);
    const C sum = p.gradient ? exponentiate(v, p.vocab, max) : sum_of_exp(v, p.vocab, max);
    const C lse = max + std::log(sum);
    p.losses[row] = counts ? lse - right : C(0);
    p.squares[row] = lse * lse;
    if (!p.gradient) continue;
    const C hit = counts ? p.hit : C(0), factor = (hit + p.z_factor * lse) / sum;
    const C at_target = counts ? v[target] : C(0);
#pragma omp simd
    for (int64_t i = 0; i < p.vocab; ++i) z[i] = store<T>(v[i] * factor);
    if (counts) z[target] = store<T>(at_target * factor - hit);
  }
}

template void cross_entropy(const CrossEntropy<float>&, int64_t, int64_t, float*);
template void cross_entropy(const CrossEntropy<double>&, int64_t, int64_t, double*);
template void cross_entropy(const CrossEntropy<bf16>&, int64_t, int64_t, float*);

}  // namespace siamese::kernels::SIAMESE_SIMD
