// Stands in for src/kernels/cuda/async.cuh: copies. Those of single words arrive at once.
#pragma once

#include <algorithm>

#include "emulator.h"

namespace siamese::kernels {

inline void copy_async4(void* shared, const void* global) { std::memcpy(shared, global, 4); }
inline void copy_async_arrive(uint32_t barrier) {
  emulator::Arrivals& a = emulator::block().arrivals.at(barrier);
  --a.pending;
  a.check();
}
inline void copy_bulk(uint32_t shared, const void* global, unsigned bytes, uint32_t barrier) {
  if (bytes % 16 != 0 || shared % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0)
    throw std::logic_error("a bulk copy that is not aligned");
  if (shared + bytes > emulator::state.shared) throw std::logic_error("a bulk copy past the end of shared memory");
  emulator::later([=, block = &emulator::block()] {
    std::memcpy(block->memory + shared, global, bytes);
    std::fill_n(block->written.begin() + shared / 4, bytes / 4, emulator::Written{});
    emulator::Arrivals& a = block->arrivals.at(barrier);
    a.bytes -= bytes;
    a.check();
  });
}

}  // namespace siamese::kernels
