// CUDA side of ops/cross_entropy.cpp.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/scale.h"

namespace siamese {
namespace {

int type_number(const at::Tensor& t) {
  const auto type = t.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16, "[lm_head_loss] needs fp32 or bf16 on a GPU but got ", type);
  return type == at::kFloat ? 0 : 2;
}

void rows_gpu(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& count, at::Tensor& losses,
              at::Tensor& squares, int64_t ignore, double scale, double z_factor, bool gradient) {
  const c10::cuda::CUDAGuard guard(logits.device());
  TORCH_CHECK(logits.is_contiguous() && targets.is_contiguous() && losses.is_contiguous() && squares.is_contiguous(),
              "[lm_head_loss] needs contiguous rows");
  kernels::CrossEntropyCuda p;
  p.type = type_number(logits);
  p.logits = logits.mutable_data_ptr(), p.targets = targets.const_data_ptr<int64_t>();
  p.count = count.const_data_ptr<float>();
  p.losses = losses.mutable_data_ptr<float>(), p.squares = squares.mutable_data_ptr<float>();
  p.rows = logits.size(0), p.vocab = logits.size(1), p.ignore = ignore;
  p.scale = static_cast<float>(scale), p.z_factor = static_cast<float>(z_factor);
  p.gradient = gradient;
  C10_CUDA_CHECK(kernels::cross_entropy_cuda(p, c10::cuda::getCurrentCUDAStream()));
}

void scale_gpu(at::Tensor& values, const at::Tensor& factor) {
  TORCH_CHECK(values.is_contiguous() && factor.numel() == 1 && factor.device() == values.device(),
              "[scale_by_] needs contiguous values and a factor of one element on ", values.device());
  const c10::cuda::CUDAGuard guard(values.device());
  const at::Tensor f = factor.to(at::kFloat);
  C10_CUDA_CHECK(kernels::scale_cuda(values.mutable_data_ptr(), type_number(values), values.numel(),
                                     f.const_data_ptr<float>(), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("cross_entropy_rows_", rows_gpu);
  m.impl("scale_by_", scale_gpu);
}

}  // namespace siamese
