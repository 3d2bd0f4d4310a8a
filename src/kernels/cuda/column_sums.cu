#include "kernels/cuda/column_sums.h"

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/stream_step.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kWarps = 8, kColumns = 256, kAtOnce = 4;  // a warp has 256 columns of a row, eight a lane

/// A block's rows: those of its part, a warp every so-many-th, with several reads on their way.
template <class T>
__global__ void __launch_bounds__(32 * kWarps) part_kernel(const T* m, int64_t rows, int64_t columns, float* partial) {
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + 8 * lane;
  const int64_t each = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * each;
  const int64_t end = begin + each < rows ? begin + each : rows;
  allow_next();
  Float8 sum = zero8();
  if (column < columns) {
    for (int64_t row = begin + warp; row < end; row += kWarps * kAtOnce) {
      Raw8<T> v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (row + i * kWarps < end) v[i] = fetch8(m + (row + i * kWarps) * columns + column);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (row + i * kWarps >= end) break;
        const Float8 f = widen(v[i]);
#pragma unroll
        for (int j = 0; j < 8; ++j) sum.v[j] += f.v[j];
      }
    }
  }
  __shared__ float all[kWarps][kColumns];
#pragma unroll
  for (int j = 0; j < 8; ++j) all[warp][8 * lane + j] = sum.v[j];
  __syncthreads();
  const int c = warp * 32 + lane;
  if (static_cast<int64_t>(blockIdx.x) * kColumns + c >= columns) return;
  float total = 0.f;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total += all[w][c];
  partial[blockIdx.y * columns + static_cast<int64_t>(blockIdx.x) * kColumns + c] = total;
}

}  // namespace

int column_sum_parts(int64_t rows, int64_t columns) {
  constexpr int64_t kBlocks = 1056,
                    kFewest = kWarps * kAtOnce;  // eight a processor of the largest GPUs; rows of a part
  const int64_t across = (columns + kColumns - 1) / kColumns, wanted = kBlocks / (across < 1 ? 1 : across);
  const int64_t most = (rows + kFewest - 1) / kFewest;
  return static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most < 1 ? 1 : most);
}

cudaError_t column_sums_cuda(bool bf16, const void* m, int64_t rows, int64_t columns, float* partial, void* out,
                             cudaStream_t stream) {
  if (columns % 8 != 0) return cudaErrorInvalidValue;
  if (columns == 0) return cudaSuccess;
  const int parts = column_sum_parts(rows, columns);
  const dim3 grid(static_cast<unsigned>((columns + kColumns - 1) / kColumns), static_cast<unsigned>(parts));
  const dim3 block(32, kWarps);
  if (bf16) {
    part_kernel<<<grid, block, 0, stream>>>(static_cast<const bfloat*>(m), rows, columns, partial);
  } else {
    part_kernel<<<grid, block, 0, stream>>>(static_cast<const float*>(m), rows, columns, partial);
  }
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return e;
  ColumnSums sums;
  sums.count = 1;
  sums.out[0] = out;
  return sum_columns_cuda(partial, {parts, 1}, columns, 1, sums, bf16 ? 2 : 0, stream);
}

}  // namespace siamese::kernels
