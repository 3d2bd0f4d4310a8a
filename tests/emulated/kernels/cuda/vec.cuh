// Stands in for src/kernels/cuda/vec.cuh: what the tile kernels take of it.
#pragma once

#include "emulator.h"

namespace siamese::kernels {
using bfloat = __nv_bfloat16;
inline float to_float(bfloat v) { return __uint_as_float(static_cast<uint32_t>(v.bits) << 16); }
template <class T>
T from_float(float v) {
  return {static_cast<uint16_t>(emulator::rounded(v))};
}
}  // namespace siamese::kernels
