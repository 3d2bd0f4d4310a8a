// Stands in for src/kernels/cuda/cluster.cuh.
#pragma once

#include "emulator.h"

namespace siamese::kernels {
inline unsigned cluster_rank() { return blockIdx.x % static_cast<unsigned>(emulator::state.cluster); }
inline void cluster_barrier() {
  emulator::State& all = emulator::state;
  emulator::wait_at(all.clusters[emulator::first_of_cluster(emulator::block()) / all.cluster],
                    static_cast<int>(all.size.x * all.size.y * all.cluster));
}
}  // namespace siamese::kernels
