// CUDA side of `siamese::column_sums`.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/column_sums.h"
#include "ops/cuda/tensors.h"

namespace siamese {
namespace {

using at::Tensor;

Tensor sums_cuda(const Tensor& t) {
  const int64_t columns = t.size(-1), rows = columns == 0 ? 0 : t.numel() / columns;
  const bool bf16 = t.scalar_type() == at::kBFloat16;
  if (columns % 8 != 0 || rows == 0 || (!bf16 && t.scalar_type() != at::kFloat)) return t.reshape({-1, columns}).sum(0);
  const c10::cuda::CUDAGuard guard(t.device());
  const Tensor m = aligned(t), out = at::empty({columns}, t.options());
  const Tensor partial = at::empty({kernels::column_sum_parts(rows, columns), columns}, t.options().dtype(at::kFloat));
  C10_CUDA_CHECK(kernels::column_sums_cuda(bf16, m.const_data_ptr(), rows, columns, partial.mutable_data_ptr<float>(),
                                           out.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) { m.impl("column_sums", sums_cuda); }

}  // namespace siamese
