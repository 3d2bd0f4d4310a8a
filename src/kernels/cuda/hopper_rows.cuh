// More of Hopper's instructions (hopper.cuh), those of kernels whose warpgroups own 64 rows each and keep them in
// registers: products with A in registers, boxes of tensors [batch, row, column], numbers in shared memory, words that
// thread blocks tell each other.
#pragma once

#include "kernels/cuda/hopper.cuh"

namespace siamese::kernels::hopper {

__device__ __forceinline__ void load_box(const CUtensorMap& map, uint32_t to, uint32_t barrier, int column, int row,
                                         int batch) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(batch)
      : "memory");
}
/// To L2.
__device__ __forceinline__ void prefetch_box(const CUtensorMap& map, int column, int row, int batch) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(&map), "r"(column), "r"(row),
               "r"(batch)
               : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap& map, uint32_t from, int column, int row, int batch) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(from),
               "r"(column), "r"(row), "r"(batch)
               : "memory");
}
/// Products read their registers while they run: values that are kept until here are not overwritten before.
template <int n>
__device__ __forceinline__ void hold(uint32_t (&values)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// clang-format off
#define SIAMESE_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIAMESE_R16(d, i) SIAMESE_R4(d, i), SIAMESE_R4(d, i + 4), SIAMESE_R4(d, i + 8), SIAMESE_R4(d, i + 12)
/// d[64 × n] += A[64 × 16]·B[16 × n] (or = where not `add`), n = 64 or 128, with A's four registers of this thread.
template <bool n_fastest>
__device__ __forceinline__ void product(float (&d)[32], const uint32_t* a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
      : SIAMESE_R16(d, 0), SIAMESE_R16(d, 16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(n_fastest ? 1 : 0));
}
template <bool n_fastest>
__device__ __forceinline__ void product(float (&d)[64], const uint32_t* a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
      : SIAMESE_R16(d, 0), SIAMESE_R16(d, 16), SIAMESE_R16(d, 32), SIAMESE_R16(d, 48)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(n_fastest ? 1 : 0));
}
/// d[64 × 64] += A[64 × 16]·B[16 × 64] with both in shared memory; B's columns run fastest, and A's rows where m_fastest.
template <bool m_fastest>
__device__ __forceinline__ void product(float (&d)[32], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, %35, 1;\n}"
      : SIAMESE_R16(d, 0), SIAMESE_R16(d, 16)
      : "l"(a), "l"(b), "r"(add), "n"(m_fastest ? 1 : 0));
}
#undef SIAMESE_R16
#undef SIAMESE_R4
// clang-format on

// Numbers in shared memory.
__device__ __forceinline__ float shared_float(uint32_t address) {
  float f;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(f) : "r"(address) : "memory");
  return f;
}
__device__ __forceinline__ void put_shared(uint32_t address, float f) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(f) : "memory");
}
__device__ __forceinline__ float2 shared_float2(uint32_t address) {
  float2 f;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(f.x), "=f"(f.y) : "r"(address));
  return f;
}
__device__ __forceinline__ float4 shared_float4(uint32_t address) {
  float4 f;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w)
               : "r"(address)
               : "memory");
  return f;
}
__device__ __forceinline__ int shared_byte(uint32_t address) {
  int v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

// Words in global memory between thread blocks: who reads one sees all that was written before it.
__device__ __forceinline__ int read_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void write_release(int* p, int v) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
/// Ordinary writes to global memory become visible to the copy engine.
__device__ __forceinline__ void fence_for_copies_of_memory() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

}  // namespace siamese::kernels::hopper
