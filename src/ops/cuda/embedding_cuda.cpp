// CUDA side of ops/embedding.cpp.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/embedding.h"

namespace siamese {
namespace {

at::Tensor embedding_backward_gpu(const at::Tensor& gradient, const at::Tensor& ids, int64_t vocab) {
  const auto type = gradient.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16, "[embedding] needs fp32 or bf16 on a GPU but got ", type);
  TORCH_CHECK(vocab <= INT32_MAX, "[embedding] weight must have less than 2^31 rows but has ", vocab);
  const c10::cuda::CUDAGuard guard(gradient.device());
  const at::Tensor g = gradient.contiguous();
  // Half the bits: the radix sort takes half the passes.
  const auto [sorted, places] =
      at::sort(ids.reshape({-1}).to(at::kInt), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  kernels::EmbeddingGradientCuda p;
  p.tokens = ids.numel(), p.d = g.size(-1);
  TORCH_CHECK(g.numel() == p.tokens * p.d, "[embedding] the gradient is ", g.sizes(), " but the ids are ", ids.sizes());
  const int64_t chunks = (p.tokens + kernels::kEmbeddingChunk - 1) / kernels::kEmbeddingChunk;
  const at::Tensor g_weight = at::zeros({vocab, p.d}, g.options());
  const at::Tensor partial = at::empty({chunks, 2, p.d}, g.options().dtype(at::kFloat));
  p.g = g.const_data_ptr(), p.ids = sorted.const_data_ptr<int32_t>(), p.places = places.const_data_ptr<int64_t>();
  p.g_weight = g_weight.mutable_data_ptr(), p.partial = partial.mutable_data_ptr<float>();
  p.type = type == at::kFloat ? 0 : 2;
  C10_CUDA_CHECK(kernels::embedding_gradient_cuda(p, c10::cuda::getCurrentCUDAStream()));
  return g_weight;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) { m.impl("embedding_backward", embedding_backward_gpu); }

}  // namespace siamese
