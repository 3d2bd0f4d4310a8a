// CUDA kernels on a CPU, for their logic: a fiber a thread, one block after the other, or several at a time where they
// wait for each other, shared memory full of NaN at first. Kernels are included as they are;
// tests/emulated/kernels/cuda stands in for the headers with instructions. The copy engine's copies are made some turns
// later, products of the tensor cores when they are waited for, so that a missing wait shows (but operands in registers
// are read at once). Where tiles are written by ordinary stores and an engine reads them, there must be a fence
// between; other fences are not seen, nor is the order in which a GPU lets others see what a thread has written.
#pragma once

#include "launch.h"

#define threadIdx (emulator::state.current->thread)
#define blockIdx (emulator::block().index)
#define gridDim (emulator::state.grid)
#define blockDim (emulator::state.size)

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __nv_bfloat162 {
  uint32_t bits;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {emulator::rounded(a) | emulator::rounded(b) << 16};
}
inline float __uint_as_float(uint32_t w) {
  float f;
  std::memcpy(&f, &w, 4);
  return f;
}
/// The larger ones; the other one where one is NaN.
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) {
  const auto larger = [](uint32_t v, uint32_t w) {
    return emulator::rounded(std::fmax(__uint_as_float(v), __uint_as_float(w)));
  };
  return {larger(a.bits << 16, b.bits << 16) | larger(a.bits & 0xffff0000U, b.bits & 0xffff0000U) << 16};
}
inline int min(int a, int b) { return a < b ? a : b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
template <class T>
T __ldg(const T* p) {
  return *p;
}
/// Some take a turn: other threads, of the warp too, may be ahead.
template <class T>
void __stcg(T* p, T v) {
  if (emulator::state.random() % 16 == 0) ++emulator::steps(), emulator::yield();
  *p = v;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
inline float rsqrtf(float v) { return 1.f / std::sqrt(v); }
template <class T>
T __shfl_sync(unsigned, T v, int from) {
  return emulator::exchange(v, from, false);
}
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask) {
  return emulator::exchange(v, mask, true);
}
inline int __all_sync(unsigned, bool mine) {
  int all = 1;
  for (const auto& of_lane : emulator::gather(static_cast<int>(mine))) all = all != 0 && of_lane[0] != 0;
  return all;
}
inline void __syncwarp(unsigned = 0xffffffffU) { emulator::exchange(0, 0, true); }
inline float __log2f(float v) { return std::log2(v); }
inline float __expf(float v) { return std::exp(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline void __syncthreads() {
  emulator::wait_at(emulator::block().barriers[0], static_cast<int>(blockDim.x * blockDim.y));
}
