// What the passes before attention compute with a row: sums over its lanes, statistics, R, gains.
#pragma once

#include "kernels/cuda/qkv_rope_ring.cuh"

namespace siamese::kernels::rows {

/// Sum over the lanes of a row.
template <class C>
__device__ __forceinline__ float row_sum(float v) {
#pragma unroll
  for (int offset = C::lanes / 2; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffU, v, offset);
  return v;
}
// In a lane: four chains of additions instead of one, as nothing else hides their latency.
__device__ __forceinline__ float lane_sum(const Halves& x) {
  float s[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i % 2] += x.a.v[i], s[2 + i % 2] += x.b.v[i];
  return (s[0] + s[1]) + (s[2] + s[3]);
}
__device__ __forceinline__ float lane_product(const Halves& x, const Halves& y) {
  float s[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i % 2] += x.a.v[i] * y.a.v[i], s[2 + i % 2] += x.b.v[i] * y.b.v[i];
  return (s[0] + s[1]) + (s[2] + s[3]);
}

/// x ← x - μ where LayerNorm has a μ.
template <class C>
__device__ __forceinline__ void centre(Halves& x) {
  if (!C::layer) return;
  const float mean = row_sum<C>(lane_sum(x)) * (1.f / C::D);
#pragma unroll
  for (int i = 0; i < 8; ++i) x.a.v[i] -= mean, x.b.v[i] -= mean;
}

/// The angles of a position; where they are held, loaded again only when it changes.
struct Angles {
  Float8 cos, sin;
  unsigned position = ~0U;

  template <class C>
  __device__ __forceinline__ void go(const QkvRope& p, unsigned to, const Place& at) {
    if (C::held && to == position) return;
    position = to;
    const int64_t from = static_cast<int64_t>(to) * (C::D / 2) + 8 * at.column;
    cos = load8(p.cos + from), sin = load8(p.sin + from);
  }
  /// R, or its transpose.
  template <bool transposed>
  __device__ __forceinline__ void turn(Halves& x) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float a = x.a.v[i], b = x.b.v[i], s = transposed ? -sin.v[i] : sin.v[i];
      x.a.v[i] = a * cos.v[i] - b * s;
      x.b.v[i] = b * cos.v[i] + a * s;
    }
  }
};

/// A lane's columns of a gain or bias, in half the registers.
template <class C>
__device__ __forceinline__ RawHalves affine(const void* from, const Place& at, float otherwise) {
  const auto* p = static_cast<const bfloat*>(from);
  if (p == nullptr) return {narrow(fill8(otherwise), bfloat{}), narrow(fill8(otherwise), bfloat{})};
  return {fetch8(p + 8 * at.column), fetch8(p + C::D / 2 + 8 * at.column)};
}

}  // namespace siamese::kernels::rows
