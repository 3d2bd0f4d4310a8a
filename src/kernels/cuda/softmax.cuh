// Sums of exponentials that grow by parts.
#pragma once

#include "kernels/cuda/exponential.cuh"

namespace siamese::kernels {

constexpr float kLog2e = 1.44269504f;

/// exp(x - reference); the difference is taken first, so that the largest terms are exact to a rounding.
__device__ __forceinline__ float exp_from(float x, float reference) { return exp2_fast((x - reference) * kLog2e); }

/// Largest value so far and the sum of exp(x - largest). fmaxf passes over NaN; the sum keeps it.
struct Softmax {
  float max, sum;
};
constexpr float kNone = -__builtin_huge_valf();

/// What a maximum is compared with: -inf - -inf would be NaN where there is nothing yet, or only -inf.
__device__ __forceinline__ float reference_of(float max) { return max == kNone ? 0.f : max; }

__device__ __forceinline__ Softmax merge(const Softmax& a, const Softmax& b) {
  const float max = fmaxf(a.max, b.max), reference = reference_of(max);
  return {max, a.sum * exp_from(a.max, reference) + b.sum * exp_from(b.max, reference)};
}
__device__ __forceinline__ Softmax warp_merge(Softmax s) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1)
    s = merge(s, {__shfl_xor_sync(0xffffffffU, s.max, offset), __shfl_xor_sync(0xffffffffU, s.sum, offset)});
  return s;
}

}  // namespace siamese::kernels
