// bfloat16 as storage: 16 bits on disk and in memory, fp32 in registers.
#pragma once

#include <bit>
#include <cstdint>

namespace siamese::kernels {

struct bf16 {
  uint16_t bits;
};

template <class T>
struct Compute {  // the type statistics are taken in
  using type = T;
};
template <>
struct Compute<bf16> {
  using type = float;
};
template <class T>
using compute_t = typename Compute<T>::type;

template <class C>
inline C load(C v) {
  return v;
}
template <class C>
inline C load(bf16 v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16);
}

template <class T, class C>
inline T store(C v) {
  return static_cast<T>(v);
}
template <>
inline bf16 store<bf16, float>(float v) {  // round to nearest even; NaN stays NaN
  const uint32_t b = std::bit_cast<uint32_t>(v);
  const uint32_t rounded = (b + 0x7fffU + ((b >> 16) & 1U)) >> 16;
  const uint32_t nan = (b >> 16) | 0x40U;
  return {static_cast<uint16_t>((b & 0x7fffffffU) > 0x7f800000U ? nan : rounded)};
}

}  // namespace siamese::kernels
