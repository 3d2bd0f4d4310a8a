// What the CUDA kernels share: eight values of a row at a time (one 16-byte access of bf16), sums over a row's threads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace siamese::kernels {

using bfloat = __nv_bfloat16;

/// Eight neighbouring values in fp32 registers.
struct Float8 {
  float v[8];
};

__device__ __forceinline__ Float8 zero8() { return {{0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f}}; }
__device__ __forceinline__ Float8 fill8(float value) {
  Float8 f;
#pragma unroll
  for (int i = 0; i < 8; ++i) f.v[i] = value;
  return f;
}

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(bfloat v) { return __bfloat162float(v); }
template <class T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) {
  return v;
}
template <>
__device__ __forceinline__ bfloat from_float<bfloat>(float v) {
  return __float2bfloat16_rn(v);
}
/// Eight values in the form they have in memory: half the registers of Float8 for bf16.
template <class T>
struct Raw8;
template <>
struct Raw8<bfloat> {
  uint4 bits;
};
template <>
struct Raw8<float> {
  float4 low, high;
};

__device__ __forceinline__ Raw8<bfloat> fetch8(const bfloat* p) { return {*reinterpret_cast<const uint4*>(p)}; }
__device__ __forceinline__ Raw8<float> fetch8(const float* p) {
  return {reinterpret_cast<const float4*>(p)[0], reinterpret_cast<const float4*>(p)[1]};
}
__device__ __forceinline__ Float8 widen(const Raw8<bfloat>& r) {
  Float8 f;
  const uint32_t words[4] = {r.bits.x, r.bits.y, r.bits.z, r.bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    f.v[2 * i] = __uint_as_float(words[i] << 16);
    f.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
  return f;
}
__device__ __forceinline__ Float8 widen(const Raw8<float>& r) {
  return {{r.low.x, r.low.y, r.low.z, r.low.w, r.high.x, r.high.y, r.high.z, r.high.w}};
}

__device__ __forceinline__ Raw8<bfloat> narrow(const Float8& f, bfloat) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(f.v[2 * i], f.v[2 * i + 1]);
    words[i] = *reinterpret_cast<const uint32_t*>(&pair);
  }
  return {make_uint4(words[0], words[1], words[2], words[3])};
}
__device__ __forceinline__ Raw8<float> narrow(const Float8& f, float) {
  return {make_float4(f.v[0], f.v[1], f.v[2], f.v[3]), make_float4(f.v[4], f.v[5], f.v[6], f.v[7])};
}
__device__ __forceinline__ void put8(bfloat* p, const Raw8<bfloat>& r) { *reinterpret_cast<uint4*>(p) = r.bits; }
__device__ __forceinline__ void put8(float* p, const Raw8<float>& r) {
  reinterpret_cast<float4*>(p)[0] = r.low;
  reinterpret_cast<float4*>(p)[1] = r.high;
}

__device__ __forceinline__ Float8 load8(const bfloat* p) { return widen(fetch8(p)); }
__device__ __forceinline__ Float8 load8(const float* p) { return widen(fetch8(p)); }

__device__ __forceinline__ void store8(bfloat* p, const Float8& f) { put8(p, narrow(f, bfloat{})); }
__device__ __forceinline__ void store8(float* p, const Float8& f) { put8(p, narrow(f, float{})); }

/// Zeros where there is nothing to read.
template <class T>
__device__ __forceinline__ Float8 load8_if(bool there, const T* p) {
  Float8 f = zero8();
  if (there) f = load8(p);
  return f;
}
/// The same, left as it is in memory: for values fetched long before their use.
__device__ __forceinline__ Raw8<bfloat> fetch8_if(bool there, const bfloat* p) {
  return there ? fetch8(p) : Raw8<bfloat>{make_uint4(0, 0, 0, 0)};
}
__device__ __forceinline__ Raw8<float> fetch8_if(bool there, const float* p) {
  return there ? fetch8(p) : Raw8<float>{make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)};
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffU, v, offset);
  return v;
}

}  // namespace siamese::kernels
