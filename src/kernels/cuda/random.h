// Launchers of the random kernels: pointers, sizes, a stream. `type`: 0 fp32, 1 fp64, 2 bf16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

struct CudaDraw {
  uint64_t seed, step;
  uint32_t site;
  int64_t offset;
};

cudaError_t truncated_normal_cuda(void* out, int type, int64_t n, double std, double cutoff, CudaDraw draw,
                                  cudaStream_t stream);
cudaError_t uniform_cuda(float* out, int64_t n, CudaDraw draw, cudaStream_t stream);
cudaError_t dropout_cuda(const void* x, void* out, int type, int64_t n, float p, CudaDraw draw, cudaStream_t stream);

}  // namespace siamese::kernels
