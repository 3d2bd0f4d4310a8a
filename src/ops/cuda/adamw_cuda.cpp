// CUDA side of ops/adamw.cpp.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/adamw.h"

namespace siamese {
namespace {

/// How many `Row`s a table of bytes holds.
template <class Row>
int64_t rows(const at::Tensor& table, const char* name) {
  TORCH_CHECK(table.is_cuda() && table.is_contiguous() && table.scalar_type() == at::kByte &&
                  table.numel() % static_cast<int64_t>(sizeof(Row)) == 0,
              "[adamw] ", name, " must be a contiguous table of bytes on the GPU");
  return table.numel() / static_cast<int64_t>(sizeof(Row));
}

kernels::AdamwTables tables_of(const at::Tensor& tensors, const at::Tensor& gradients, const at::Tensor& chunks) {
  const int64_t count = rows<kernels::AdamwTensor>(tensors, "tensors");
  TORCH_CHECK(rows<kernels::AdamwGradient>(gradients, "gradients") == count, "[adamw] ", count, " tensors must have ",
              count, " gradients");
  return {static_cast<const kernels::AdamwTensor*>(tensors.const_data_ptr()),
          static_cast<const kernels::AdamwGradient*>(gradients.const_data_ptr()),
          static_cast<const kernels::AdamwChunk*>(chunks.const_data_ptr()),
          rows<kernels::AdamwChunk>(chunks, "chunks")};
}

kernels::AdamwControl* control_of(const at::Tensor& control) {
  TORCH_CHECK(control.is_contiguous() && control.scalar_type() == at::kDouble &&
                  control.nbytes() == sizeof(kernels::AdamwControl),
              "[adamw] control must be contiguous fp64 of ", sizeof(kernels::AdamwControl), " bytes");
  return reinterpret_cast<kernels::AdamwControl*>(control.mutable_data_ptr<double>());
}

void plan_gpu(const at::Tensor& control, double lr, int64_t step) {
  TORCH_CHECK(step >= 1, "[adamw] steps count from 1 but this is step ", step);
  const c10::cuda::CUDAGuard guard(control.device());
  C10_CUDA_CHECK(
      kernels::adamw_plan_cuda(control_of(control), lr, static_cast<double>(step), c10::cuda::getCurrentCUDAStream()));
}

void accumulate_gpu(const at::Tensor& sums, const at::Tensor& tensors, const at::Tensor& gradients,
                    const at::Tensor& chunks, bool add) {
  TORCH_CHECK(sums.is_contiguous() && sums.scalar_type() == at::kFloat, "[adamw] sums must be contiguous fp32");
  const c10::cuda::CUDAGuard guard(sums.device());
  C10_CUDA_CHECK(kernels::adamw_accumulate_cuda(tables_of(tensors, gradients, chunks), sums.mutable_data_ptr<float>(),
                                                add, c10::cuda::getCurrentCUDAStream()));
}

void step_gpu(const at::Tensor& control, const at::Tensor& tensors, const at::Tensor& gradients,
              const at::Tensor& chunks, const at::Tensor& partials, const std::optional<at::Tensor>& loss) {
  const kernels::AdamwTables tables = tables_of(tensors, gradients, chunks);
  TORCH_CHECK(
      partials.is_contiguous() && partials.scalar_type() == at::kFloat && partials.numel() >= tables.chunk_count,
      "[adamw] partials must be contiguous fp32 with room for ", tables.chunk_count, " chunks");
  TORCH_CHECK(!loss || (loss->is_cuda() && loss->numel() == 1 && loss->scalar_type() == at::kDouble),
              "[adamw] the loss must be an fp64 scalar on the GPU");
  const c10::cuda::CUDAGuard guard(control.device());
  C10_CUDA_CHECK(kernels::adamw_step_cuda(tables, control_of(control), partials.mutable_data_ptr<float>(),
                                          loss ? loss->const_data_ptr<double>() : nullptr,
                                          c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("adamw_plan_", plan_gpu);
  m.impl("adamw_accumulate_", accumulate_gpu);
  m.impl("adamw_step_", step_gpu);
}

}  // namespace siamese
