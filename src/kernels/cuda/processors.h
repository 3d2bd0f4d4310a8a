// How many multiprocessors the current device has.
#pragma once

#include <cuda_runtime_api.h>

namespace siamese::kernels {

inline cudaError_t count_processors(int* count) {
  int device = 0;
  const cudaError_t e = cudaGetDevice(&device);
  return e != cudaSuccess ? e : cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device);
}

}  // namespace siamese::kernels
