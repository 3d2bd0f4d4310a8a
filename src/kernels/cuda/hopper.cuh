// Hopper's own instructions (sm_90a) as functions: barriers in shared memory, the copy engine (TMA), matrix products of
// a warpgroup (wgmma), and 8×8 fragments between registers and shared memory. Names follow PTX.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

/// The block's dynamic shared memory, bytes. Not a function: addresses cost registers where the compiler sees a pointer.
#define SIAMESE_DYNAMIC_MEMORY(name) extern __shared__ __align__(1024) uint8_t name[]

namespace siamese::kernels::hopper {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Barriers with a count of arrivals and of bytes, in phases 0, 1, 0, …
__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t phase) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// The address of the same place in a block of the cluster.
__device__ __forceinline__ uint32_t address_in(uint32_t address, uint32_t block) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
/// No scope is named: `.release.cluster` would wait for all memory of the GPU, and what wgmma has read needs none.
__device__ __forceinline__ void barrier_arrive_in_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Named barriers of the block's threads: whoever syncs waits until `threads` have synced or arrived.
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// The copy engine: a box of a matrix at (column, row), 128-byte swizzled.
__device__ __forceinline__ void load_box(const CUtensorMap& map, uint32_t to, uint32_t barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(&map), "r"(barrier), "r"(column), "r"(row)
      : "memory");
}
/// To the same place in every block of `mask`, where the same barrier counts the bytes.
__device__ __forceinline__ void load_box_to_all(const CUtensorMap& map, uint32_t to, uint32_t barrier, int column,
                                                int row, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(column), "r"(row), "h"(mask)
      : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap& map, uint32_t from, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(from),
               "r"(column), "r"(row)
               : "memory");
}
__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until the shared memory of all stores but the last `pending` groups has been read.
template <int pending>
__device__ __forceinline__ void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
/// Ordinary writes to shared memory become visible to the copy engine.
__device__ __forceinline__ void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Where a swizzled operand of wgmma lies: `major` the distance of the next 64 elements along M or N where those run
/// fastest (otherwise unused), `stride` the distance of the next 8 rows.
__device__ __forceinline__ uint64_t matrix_at(uint32_t address, uint32_t major, uint32_t stride) {
  return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | (static_cast<uint64_t>(major >> 4) << 16) |
         (static_cast<uint64_t>(stride >> 4) << 32) | (uint64_t{1} << 62);
}

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// clang-format off
#define SIAMESE_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIAMESE_R16(d, i) SIAMESE_R4(d, i), SIAMESE_R4(d, i + 4), SIAMESE_R4(d, i + 8), SIAMESE_R4(d, i + 12)
/// d[64 × n] += A[64 × 16]·B[16 × n] by the four warps of a warpgroup (or = where not `add`), n = 128 or 176: n / 2 values a
/// thread. A's k runs fastest; B's n does where n_fastest, otherwise its k.
template <bool n_fastest>
__device__ __forceinline__ void product(float (&d)[64], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, %67;\n}"
      : SIAMESE_R16(d, 0), SIAMESE_R16(d, 16), SIAMESE_R16(d, 32), SIAMESE_R16(d, 48)
      : "l"(a), "l"(b), "r"(add), "n"(n_fastest ? 1 : 0));
}
template <bool n_fastest>
__device__ __forceinline__ void product(float (&d)[88], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %90, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n176k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
      "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87}, "
      "%88, %89, p, 1, 1, 0, %91;\n}"
      : SIAMESE_R16(d, 0), SIAMESE_R16(d, 16), SIAMESE_R16(d, 32), SIAMESE_R16(d, 48), SIAMESE_R16(d, 64), SIAMESE_R4(d, 80), SIAMESE_R4(d, 84)
      : "l"(a), "l"(b), "r"(add), "n"(n_fastest ? 1 : 0));
}
#undef SIAMESE_R16
#undef SIAMESE_R4
// clang-format on

/// Four (or two) 8×8 matrices of 2-byte values; lane i names the row i % 8 of matrix i / 8.
__device__ __forceinline__ void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}
__device__ __forceinline__ void store_matrices(uint32_t to, uint32_t a, uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void load_matrices(uint32_t from, uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(from)
               : "memory");
}

/// Two values as bf16 in one register, the first one low.
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
// The two values that pack() put together.
__device__ __forceinline__ float low(uint32_t both) { return __uint_as_float(both << 16); }
__device__ __forceinline__ float high(uint32_t both) { return __uint_as_float(both & 0xffff0000U); }

}  // namespace siamese::kernels::hopper
