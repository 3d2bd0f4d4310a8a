// The stream step by tiles (step_tile.cuh): the forms training runs through, on GPUs of compute capability 9.0 and up.
#pragma once

#include "kernels/cuda/stream_step.h"

namespace siamese::kernels {

/// Each runs the pass and returns true where it serves this call, with `error` set; otherwise it does nothing. As in
/// step_parts, `parts->parts` 0 means that parts are counted.
bool step_forward_by_tiles(const StepCuda& call, cudaStream_t stream, cudaError_t* error);
bool step_backward_by_tiles(const StepCuda& call, StepParts* parts, cudaStream_t stream, cudaError_t* error);

}  // namespace siamese::kernels
