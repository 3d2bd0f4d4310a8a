// CUDA side of ops/adamw.cpp.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/adamw.h"
#include "ops/adamw_tables.h"

namespace siamese {
namespace {

kernels::AdamwTables device_tables(const AdamwView& v) { return {v.tensors, v.gradients, v.chunks, v.chunk_count}; }

void plan_gpu(const at::Tensor& control, double lr, int64_t step) {
  adamw_check_step(step);
  const c10::cuda::CUDAGuard guard(control.device());
  C10_CUDA_CHECK(kernels::adamw_plan_cuda(adamw_control_of(control), lr, static_cast<double>(step),
                                          c10::cuda::getCurrentCUDAStream()));
}

void accumulate_gpu(const at::Tensor& sums, const at::Tensor& tensors, const at::Tensor& gradients,
                    const at::Tensor& chunks, bool add) {
  const AdamwView v(tensors, gradients, chunks, sums.device());
  const c10::cuda::CUDAGuard guard(sums.device());
  C10_CUDA_CHECK(
      kernels::adamw_accumulate_cuda(device_tables(v), adamw_sums_of(sums), add, c10::cuda::getCurrentCUDAStream()));
}

void step_gpu(const at::Tensor& control, const at::Tensor& tensors, const at::Tensor& gradients,
              const at::Tensor& chunks, const at::Tensor& partials, const std::optional<at::Tensor>& loss) {
  const AdamwView v(tensors, gradients, chunks, control.device());
  const c10::cuda::CUDAGuard guard(control.device());
  C10_CUDA_CHECK(kernels::adamw_step_cuda(device_tables(v), adamw_control_of(control),
                                          adamw_partials_of(partials, v, control.device()),
                                          adamw_loss_of(loss, control.device()), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("adamw_plan_", plan_gpu);
  m.impl("adamw_accumulate_", accumulate_gpu);
  m.impl("adamw_step_", step_gpu);
}

}  // namespace siamese
