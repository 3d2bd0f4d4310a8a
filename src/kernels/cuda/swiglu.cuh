// SwiGLU of one pair: h = v·silu(g), silu(g) = g·σ(g).
#pragma once

namespace siamese::kernels {

/// bf16 has 8 bits: the fast exponential is exact enough there.
template <bool fast>
__device__ __forceinline__ float sigmoid(float v) {
  return fast ? __fdividef(1.f, 1.f + __expf(-v)) : 1.f / (1.f + expf(-v));
}

template <bool fast>
__device__ __forceinline__ float swiglu(float v, float g) {
  return v * (g * sigmoid<fast>(g));
}

/// h again, and the gradients of v and g for that of h:  g_v = g_h·silu(g),  g_g = g_h·v·σ(1 + g(1 - σ)).
template <bool fast>
__device__ __forceinline__ float swiglu_backward(float& v, float& g, float g_h) {
  const float s = sigmoid<fast>(g), silu = g * s, h = v * silu;
  g = g_h * v * s * (1.f + g * (1.f - s));
  v = g_h * silu;
  return h;
}

}  // namespace siamese::kernels
