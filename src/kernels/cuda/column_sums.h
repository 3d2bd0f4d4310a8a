// Σ over the rows of a matrix, column by column: the gradient of a bias. Two stages, always in the same order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

/// Partial rows of the first stage, each [columns] fp32.
int column_sum_parts(int64_t rows, int64_t columns);

/// m [rows, columns] -> out [columns], both bf16 or both fp32; columns a multiple of 8, 16-byte aligned.
cudaError_t column_sums_cuda(bool bf16, const void* m, int64_t rows, int64_t columns, float* partial, void* out,
                             cudaStream_t stream);

}  // namespace siamese::kernels
