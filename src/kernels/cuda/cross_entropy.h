// Cross entropy of rows of logits on the GPU, and the gradient written over them: kernels/cross_entropy.h has the
// formulas. A block takes a row. Where the row fits into shared memory it is read from device memory once and written
// once, otherwise it is read twice. On Hopper, with a gradient, of aligned rows of 16,392 to 57,344 bf16 values, two of
// which fit, blocks take row after row, the next ones fetched ahead. No atomics: the result depends on nothing but the
// row.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

struct CrossEntropyCuda {
  void* logits = nullptr;            // [rows, vocab] of `type` (0 fp32, 2 bf16); any alignment of its elements
  const int64_t* targets = nullptr;  // [rows]; one outside [0, vocab) that is not `ignore` makes its loss NaN
  const float* count = nullptr;      // one number in device memory: how many targets of the whole batch count
  float *losses = nullptr, *squares = nullptr;  // [rows]
  int type = 0;
  int64_t rows = 0, vocab = 0, ignore = 0;
  float scale = 1, z_factor = 0;  // see kernels/cross_entropy.h
  bool gradient = false;          // false: the logits stay as they are
};

cudaError_t cross_entropy_cuda(const CrossEntropyCuda& call, cudaStream_t stream);

}  // namespace siamese::kernels
