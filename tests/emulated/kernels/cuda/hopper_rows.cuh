// Stands in for src/kernels/cuda/hopper_rows.cuh: products with A in registers, numbers in shared memory, words that
// thread blocks tell each other.
#pragma once

#include "kernels/cuda/hopper.cuh"

namespace siamese::kernels::hopper {

template <int n>
void hold(uint32_t (&)[n]) {}

/// n = 64 or 128, with A's four registers of this thread.
template <bool n_fastest, int half>
void product(float (&d)[half], const uint32_t* a, uint64_t b, int add) {
  const emulator::Slot& slot = emulator::gather(a[0], a[1], a[2], a[3]);
  const int lane = emulator::state.current->linear % 32;
  Rows rows;
  // Columns 2t and 2t + 1 of rows i and i + 8 in registers 0 and 1, those 8 on in registers 2 and 3.
  for (int r = 0; r < 2; ++r)
    for (int k = 0; k < 16; ++k) {
      const uint32_t both = slot[lane / 4 * 4 + k % 8 / 2][r + k / 8 * 2];
      rows.v[r][k] = __uint_as_float(k % 2 == 0 ? both << 16 : both & 0xffff0000U);
    }
  multiply<2 * half>(
      d, [rows](Block&) { return rows; }, b, !n_fastest, add);
}
/// Both in shared memory; B's columns run fastest, and A's rows where m_fastest.
template <bool m_fastest>
void product(float (&d)[32], uint64_t a, uint64_t b, int add) {
  multiply<64>(d, FromMemory{a, !m_fastest}, b, false, add);
}

inline float shared_float(uint32_t address) { return read_shared<float>(address); }
inline void put_shared(uint32_t address, float f) { put_words(address, &f, 4); }
inline float2 shared_float2(uint32_t address) { return read_shared<float2>(address); }
inline float4 shared_float4(uint32_t address) { return read_shared<float4>(address); }
inline int shared_byte(uint32_t address) { return read_shared<uint8_t>(address); }
inline int read_acquire(const int* p) {
  const int before = *p;
  emulator::yield();
  if (*p != before) ++emulator::steps();
  return *p;
}
inline void write_release(int* p, int v) {
  *p = v;
  ++emulator::steps();
}
inline void fence_for_copies_of_memory() {}

}  // namespace siamese::kernels::hopper
