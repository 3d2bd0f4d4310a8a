// values ← values · factor, where the factor is a number in device memory: no host reads it, and a factor of exactly 1
// costs a launch and nothing else.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

/// n values of type 0 (fp32) or 2 (bf16).
cudaError_t scale_cuda(void* values, int type, int64_t n, const float* factor, cudaStream_t stream);

}  // namespace siamese::kernels
