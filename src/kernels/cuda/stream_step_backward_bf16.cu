#include "kernels/cuda/step_backward_launch.cuh"

namespace siamese::kernels {

template cudaError_t step_backward_typed<bfloat, bfloat>(const StepCuda&, StepParts*, cudaStream_t);

}  // namespace siamese::kernels
