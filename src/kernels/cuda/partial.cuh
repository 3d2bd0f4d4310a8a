// Eight values at a time from rows of any length and alignment.
#pragma once

#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {

/// `left` values are left from p on (eight of them, or fewer at a row's end); `whole` promises eight and a 16-byte
/// aligned address. Missing values read as 0 and are not written.
template <class T>
__device__ __forceinline__ Float8 load_part(const T* p, int64_t left, bool whole) {
  if (whole) return load8(p);
  Float8 f;
#pragma unroll
  for (int i = 0; i < 8; ++i) f.v[i] = i < left ? to_float(p[i]) : 0.f;
  return f;
}
template <class T>
__device__ __forceinline__ void store_part(T* p, const Float8& f, int64_t left, bool whole) {
  if (whole) return store8(p, f);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i < left) p[i] = from_float<T>(f.v[i]);
}

}  // namespace siamese::kernels
