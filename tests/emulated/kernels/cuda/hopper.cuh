// Stands in for src/kernels/cuda/hopper.cuh: barriers.
#pragma once

#include "emulator.h"

namespace siamese::kernels::hopper {

inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const char*>(p) - emulator::tile_memory);
}
inline void barrier_init(uint32_t barrier, int arrivals) {
  emulator::state.arrivals[barrier] = {arrivals, arrivals, 0, 0};
}
inline void barrier_init_done() {}
inline void barrier_wait(uint32_t barrier, uint32_t phase) {
  while (emulator::state.arrivals.at(barrier).phase % 2 == phase) emulator::yield();
}
inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  emulator::Arrivals& a = emulator::state.arrivals.at(barrier);
  a.bytes += bytes, --a.pending;
  a.check();
}
inline void named_sync(int id, int threads) { emulator::wait_at(emulator::state.barriers[id], threads); }

}  // namespace siamese::kernels::hopper
