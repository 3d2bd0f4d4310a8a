// CUDA side of `siamese::activation`.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/activation.h"
#include "ops/activation.h"
#include "ops/cuda/tensors.h"

namespace siamese {
namespace {

using at::Tensor;
using kernels::ActivationKind;

struct Sizes {
  int64_t width, rows;
  bool bf16;

  Sizes(const Tensor& p, int64_t kind) {
    width = kind == static_cast<int64_t>(Activation::swiglu) ? p.size(-1) / 2 : p.size(-1);
    rows = p.size(-1) == 0 ? 0 : p.numel() / p.size(-1);
    bf16 = p.scalar_type() == at::kBFloat16;
  }
};

Tensor make_output(const Tensor& p, int64_t width) {
  std::vector<int64_t> shape = p.sizes().vec();
  shape.back() = width;
  return at::empty(shape, p.options());
}

Tensor forward_cuda(const Tensor& input, int64_t kind) {
  if (!activation_has_kernel(input, kind)) return activation_forward_plain(input, kind);
  const Sizes s(input, kind);
  const c10::cuda::CUDAGuard guard(input.device());
  const Tensor p = aligned(input);
  Tensor out = make_output(p, s.width);
  C10_CUDA_CHECK(kernels::activation_forward_cuda(static_cast<ActivationKind>(kind), s.bf16, p.const_data_ptr(),
                                                  out.mutable_data_ptr(), s.rows, s.width,
                                                  c10::cuda::getCurrentCUDAStream()));
  return out;
}

std::tuple<Tensor, Tensor> backward_cuda(const Tensor& gradient, const Tensor& input, int64_t kind, bool want_output) {
  if (!activation_has_kernel(input, kind)) return activation_backward_plain(gradient, input, kind, want_output);
  const Sizes s(input, kind);
  const c10::cuda::CUDAGuard guard(input.device());
  const Tensor p = aligned(input), g = aligned(gradient);
  Tensor gp = at::empty_like(p), again = want_output ? at::empty_like(g) : at::empty({0}, p.options());
  C10_CUDA_CHECK(kernels::activation_backward_cuda(
      static_cast<ActivationKind>(kind), s.bf16, p.const_data_ptr(), g.const_data_ptr(), gp.mutable_data_ptr(),
      want_output ? again.mutable_data_ptr() : nullptr, s.rows, s.width, c10::cuda::getCurrentCUDAStream()));
  return {gp, again};
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("activation", forward_cuda);
  m.impl("activation_backward", backward_cuda);
}

}  // namespace siamese
