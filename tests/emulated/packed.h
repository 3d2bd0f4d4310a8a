// Numbers in bf16 as kernels in the emulator take them.
#pragma once

#include "emulator.h"

namespace siamese::kernels {

inline double widened(uint16_t bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }

/// bf16 numbers, at a multiple of 64 bytes; NaN where none was set.
struct Packed {
  std::vector<uint16_t> memory;
  uint16_t* p;

  explicit Packed(size_t n) : memory(n + 32, uint16_t{0x7fc0}) {
    p = reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }
  void set(size_t i, double v) { p[i] = static_cast<uint16_t>(emulator::rounded(static_cast<float>(v))); }
  double operator[](size_t i) const { return widened(p[i]); }
};

}  // namespace siamese::kernels
