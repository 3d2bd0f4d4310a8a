// Tensor-core products of one warp in bf16 with fp32 sums, and what goes with them. Lane l = 4g + t of a warp holds,
// two bf16 a register:
//   A (16 x k, rows)     a[0]: row g, columns 2t, 2t+1;  a[1]: row g+8;  k = 16: a[2], a[3]: the same rows, columns + 8
//   B (k x 8, columns)   b[0]: rows 2t, 2t+1 of column g;  k = 16: b[1]: rows + 8
//   C (16 x 8, fp32)     c[0], c[1]: row g, columns 2t, 2t+1;  c[2], c[3]: row g+8
#pragma once

#include <cstdint>

#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {

__device__ __forceinline__ void mma16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                      uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(b0));
}

/// 8 x 8 bf16, lane 4g + t with row g, columns 2t and 2t+1: the transposed matrix in the same form.
__device__ __forceinline__ uint32_t transpose8x8(uint32_t v) {
  uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out) : "r"(v));
  return out;
}

__device__ __forceinline__ float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000U); }
__device__ __forceinline__ uint32_t pack(float low_value, float high_value) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low_value, high_value);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

}  // namespace siamese::kernels
