// The step of hc_dynamic by tiles (hyper_tile.cuh): the form training runs through, on GPUs of compute capability 9.0
// and up.
#pragma once

#include "kernels/cuda/hyper.h"

namespace siamese::kernels {

/// Each runs the pass and returns true where it serves this call, with `error` set; otherwise it does nothing.
/// `*parts` 0 means that parts are counted.
bool hyper_forward_by_tiles(const HyperForwardCuda& call, cudaStream_t stream, cudaError_t* error);
bool hyper_backward_by_tiles(const HyperBackwardCuda& call, int* parts, cudaStream_t stream, cudaError_t* error);

}  // namespace siamese::kernels
