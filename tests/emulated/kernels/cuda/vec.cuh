// Stands in for src/kernels/cuda/vec.cuh: what the tile kernels take of it.
#pragma once

#include "emulator.h"

namespace siamese::kernels {
using bfloat = __nv_bfloat16;
inline float to_float(bfloat v) { return __uint_as_float(static_cast<uint32_t>(v.bits) << 16); }
}  // namespace siamese::kernels
