// A product C = op(A)·op(B) of bf16 on Hopper, added in fp32 and rounded once, in tiles of 128 × 256 (gemm_woven.cuh).
// All matrices are row-major, their rows 16-byte aligned; the result depends on nothing but the sizes and the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

/// op(A) is [m, k], op(B) [k, n]; each may lie the other way round, but not both.
struct GemmWide {
  const void *a, *b;
  void* out;  // [m, n]
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  float* partial;  // gemm_wide_scratch() bytes
  int* told;       // [2 a multiprocessor], zeros, which they are again in the end
};

bool gemm_wide_serves(const GemmWide& call);
/// For the current device; 0 where it cannot be asked.
int64_t gemm_wide_scratch();
cudaError_t gemm_wide(const GemmWide& call, cudaStream_t stream);

}  // namespace siamese::kernels
