// A norm's gain where the normed values have to tell what they were before (attention_norms.cuh).
#pragma once

#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {

/// Next to nothing instead of nothing.
__device__ __forceinline__ float head_gain(bfloat gain) {
  const float g = to_float(gain), least = 0x1p-60f;
  return g > -least && g < least ? least : g;
}

}  // namespace siamese::kernels
