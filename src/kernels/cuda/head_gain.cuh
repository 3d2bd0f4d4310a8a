// Gains of norms where the normed values have to tell what they were before (attention_norms.cuh).
#pragma once

#include "kernels/cuda/vec.cuh"
#include "kernels/head_gain.h"

namespace siamese::kernels {

/// Next to nothing instead of nothing.
__device__ __forceinline__ float head_gain(bfloat gain) {
  const float g = to_float(gain);
  return g > -kLeastGain && g < kLeastGain ? kLeastGain : g;
}

/// Whether R(γ·x̂), rounded to bf16, tells x̂ well enough: R mixes columns c and c + 32, and what is lost of one of them
/// grows by the ratio of their gains. By a whole warp.
__device__ __forceinline__ bool gains_alike(const bfloat* gain) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float a = fabsf(head_gain(gain[lane])), b = fabsf(head_gain(gain[lane + 32]));
  return __all_sync(0xffffffffU, a <= kAlikeGains * b && b <= kAlikeGains * a) != 0;
}

}  // namespace siamese::kernels
