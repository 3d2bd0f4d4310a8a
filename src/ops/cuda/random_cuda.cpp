// CUDA side of the random operators of ops/random.cpp. Only this library touches CUDA; it is opened where a driver is.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/random.h"

namespace siamese {
namespace {

int type_number(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat:
      return 0;
    case at::kDouble:
      return 1;
    case at::kBFloat16:
      return 2;
    default:
      TORCH_CHECK(false, "[random] needs fp32, fp64 or bf16 but got ", t.scalar_type());
  }
}

kernels::CudaDraw draw_of(int64_t seed, int64_t step, int64_t site, int64_t offset) {
  return {static_cast<uint64_t>(seed), static_cast<uint64_t>(step), static_cast<uint32_t>(site), offset};
}

at::Tensor& truncated_normal_gpu(at::Tensor& out, double std, double cutoff, int64_t seed, int64_t step, int64_t site,
                                 int64_t offset) {
  TORCH_CHECK(out.is_contiguous(), "[truncated_normal_] the tensor must be contiguous");
  const c10::cuda::CUDAGuard guard(out.device());
  C10_CUDA_CHECK(kernels::truncated_normal_cuda(out.mutable_data_ptr(), type_number(out), out.numel(), std, cutoff,
                                                draw_of(seed, step, site, offset), c10::cuda::getCurrentCUDAStream()));
  return out;
}

at::Tensor& uniform_gpu(at::Tensor& out, int64_t seed, int64_t step, int64_t site, int64_t offset) {
  TORCH_CHECK(out.is_contiguous() && out.scalar_type() == at::kFloat, "[uniform_] needs a contiguous fp32 tensor");
  const c10::cuda::CUDAGuard guard(out.device());
  C10_CUDA_CHECK(kernels::uniform_cuda(out.mutable_data_ptr<float>(), out.numel(), draw_of(seed, step, site, offset),
                                       c10::cuda::getCurrentCUDAStream()));
  return out;
}

at::Tensor dropout_gpu(const at::Tensor& x, double p, int64_t seed, int64_t step, int64_t site, int64_t offset) {
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  const c10::cuda::CUDAGuard guard(in.device());
  C10_CUDA_CHECK(kernels::dropout_cuda(in.const_data_ptr(), out.mutable_data_ptr(), type_number(in), in.numel(),
                                       static_cast<float>(p), draw_of(seed, step, site, offset),
                                       c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("truncated_normal_", truncated_normal_gpu);
  m.impl("uniform_", uniform_gpu);
  m.impl("dropout", dropout_gpu);
}

}  // namespace siamese
