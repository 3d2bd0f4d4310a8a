// Entry points of the backward pass of the stream step, and stage two of its column sums.
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/step_common.cuh"
#include "kernels/cuda/step_tile.h"

namespace siamese::kernels {

template <class S, class Z>
cudaError_t step_backward_typed(const StepCuda& call, StepParts* parts, cudaStream_t stream);

namespace {

cudaError_t by_type(const StepCuda& call, StepParts* parts, cudaStream_t stream) {
  if (!step_sizes_fit(call)) return cudaErrorInvalidValue;
  if (cudaError_t e = cudaSuccess; step_backward_by_tiles(call, parts, stream, &e)) return e;
  switch (call.types) {
    case StepTypes::bf16_bf16:
      return step_backward_typed<bfloat, bfloat>(call, parts, stream);
    case StepTypes::fp32_bf16:
      return step_backward_typed<float, bfloat>(call, parts, stream);
    case StepTypes::fp32_fp32:
      return step_backward_typed<float, float>(call, parts, stream);
  }
  return cudaErrorInvalidValue;
}

template <class T>
__global__ void sum_kernel(const float* partial, int columns, int64_t d, int parts_each, ColumnSums sums) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * parts_each;
  __shared__ float lanes[32][33];
  wait_for_previous();
  float sum = 0.f;
  if (c < d)
    for (int part = static_cast<int>(threadIdx.y); part < parts_each; part += 32)
      sum += partial[((first + part) * columns + sums.column[blockIdx.z]) * d + c];
  lanes[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && c < d) {
    for (int y = 1; y < 32; ++y) sum += lanes[y][threadIdx.x];
    static_cast<T*>(sums.out[blockIdx.z])[blockIdx.y * d + c] = from_float<T>(sum);
  }
}

/// The same where a group has few parts: a thread a column.
template <class T>
__global__ void sum_few_kernel(const float* partial, int columns, int64_t d, int parts_each, ColumnSums sums) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= d) return;
  wait_for_previous();
  const float* from = partial + (static_cast<int64_t>(blockIdx.y) * parts_each * columns + sums.column[blockIdx.z]) * d;
  float sum = 0.f;
  for (int part = 0; part < parts_each; ++part) sum += from[part * columns * d + c];
  static_cast<T*>(sums.out[blockIdx.z])[blockIdx.y * d + c] = from_float<T>(sum);
}

}  // namespace

cudaError_t step_parts(const StepCuda& call, StepParts* out) {
  *out = {};
  return by_type(call, out, nullptr);
}

cudaError_t step_backward_cuda(const StepCuda& call, const StepParts& parts, cudaStream_t stream) {
  if (call.rows == 0 || parts.parts == 0) return cudaSuccess;
  StepParts mine = parts;
  return by_type(call, &mine, stream);
}

cudaError_t sum_columns_cuda(const float* partial, const StepParts& parts, int64_t d, int groups,
                             const ColumnSums& sums, int type, cudaStream_t stream, bool early) {
  if (sums.count == 0) return cudaSuccess;
  constexpr int kFew = 8;
  const int each = parts.parts / groups;
  const unsigned columns = each <= kFew ? 256 : 32;
  const dim3 grid(static_cast<unsigned>((d + columns - 1) / columns), static_cast<unsigned>(groups),
                  static_cast<unsigned>(sums.count));
  const dim3 block(columns, each <= kFew ? 1 : 32);
  const auto kernel = each <= kFew ? (type == 2 ? sum_few_kernel<bfloat> : sum_few_kernel<float>)
                                   : (type == 2 ? sum_kernel<bfloat> : sum_kernel<float>);
  if (early) return launch_early(kernel, grid, block, stream, partial, parts.columns, d, each, sums);
  kernel<<<grid, block, 0, stream>>>(partial, parts.columns, d, each, sums);
  return cudaGetLastError();
}

}  // namespace siamese::kernels
