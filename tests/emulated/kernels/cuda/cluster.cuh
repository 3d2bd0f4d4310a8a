// Stands in for src/kernels/cuda/cluster.cuh: the blocks at work are the cluster.
#pragma once

#include "emulator.h"

namespace siamese::kernels {
inline unsigned cluster_rank() { return blockIdx.x % static_cast<unsigned>(emulator::state.blocks.size()); }
inline void cluster_barrier() {
  emulator::wait_at(emulator::state.all, static_cast<int>(emulator::state.fibers.size()));
}
}  // namespace siamese::kernels
