// exp as straight-line code, so that loops around it vectorise.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace siamese::kernels {

inline double fast_exp(double x) { return std::exp(x); }

/// Within 2 ulp of exp for fp32: x = n·ln2 + r, exp(x) = 2^n·P(r), |r| ≤ ln2/2. Overflows to infinity, keeps NaN.
inline float fast_exp(float x) {
  const float limited = x < -87.3f ? -87.3f : (x > 88.7f ? 88.7f : x);
  const float n = std::nearbyint(limited * 1.44269504f);
  const float r = (limited - n * 0.693359375f) + n * 2.12194440e-4f;  // ln2 in two parts
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^n in two factors: n reaches 128, one more than an fp32 exponent holds.
  const int32_t whole = static_cast<int32_t>(n), half = whole / 2;
  const float s1 = std::bit_cast<float>((half + 127) << 23), s2 = std::bit_cast<float>((whole - half + 127) << 23);
  const float y = p * s1 * s2;
  return x != x ? x : (x > 88.8f ? HUGE_VALF : y);
}

template <class C>
inline C sigmoid(C x) {
  return C(1) / (C(1) + fast_exp(-x));
}

}  // namespace siamese::kernels
