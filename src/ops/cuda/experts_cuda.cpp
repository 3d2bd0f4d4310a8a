// CUDA side of ops/expert_ops.h.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/experts.h"
#include "ops/cuda/tensors.h"

namespace siamese {
namespace {

using at::Tensor;

void check_rows(const Tensor& t, const char* what) {
  TORCH_CHECK(t.dim() == 2 && t.scalar_type() == at::kBFloat16 && t.size(1) % 8 == 0, "[experts] ", what,
              " must be rows of bf16, a multiple of 8 wide, but is ", t.scalar_type(), ' ', t.sizes());
}
const int32_t* ints(const Tensor& t, int64_t count, const char* what) {
  TORCH_CHECK(t.scalar_type() == at::kInt && t.is_contiguous() && t.numel() == count, "[experts] ", what,
              " must be int32 [", count, "] but is ", t.scalar_type(), ' ', t.sizes());
  return t.const_data_ptr<int32_t>();
}
const float* floats(const Tensor& t) {
  TORCH_CHECK(t.scalar_type() == at::kFloat && t.is_contiguous(), "[experts] weights must be fp32 but are ",
              t.scalar_type());
  return t.const_data_ptr<float>();
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> sort_cuda(const Tensor& chosen, int64_t experts, int64_t capacity) {
  TORCH_CHECK(chosen.dim() == 2 && chosen.scalar_type() == at::kLong && chosen.size(1) > 0,
              "[expert_sort] chosen must be [tokens, k] int64 but is ", chosen.sizes());
  TORCH_CHECK(experts > 0 && experts <= kernels::kMostExperts, "[expert_sort] takes 1 to ", kernels::kMostExperts,
              " experts but got ", experts);
  const c10::cuda::CUDAGuard guard(chosen.device());
  const Tensor given = chosen.contiguous();
  kernels::ExpertSortCuda call;
  call.slots = given.numel(), call.k = static_cast<int>(given.size(1)), call.experts = static_cast<int>(experts);
  call.capacity = capacity;
  const int64_t rows = kernels::expert_rows_bound(call.slots, experts);
  const auto options = given.options().dtype(at::kInt);
  Tensor token = at::empty({rows}, options), slot = at::empty({rows}, options),
         place = at::empty({call.slots}, options), ends = at::empty({experts}, options),
         before = at::empty({kernels::expert_sort_chunks(call.slots), experts}, options),
         load = at::empty({experts}, given.options());
  call.chosen = given.const_data_ptr<int64_t>();
  call.token = token.mutable_data_ptr<int32_t>(), call.slot = slot.mutable_data_ptr<int32_t>();
  call.place = place.mutable_data_ptr<int32_t>(), call.ends = ends.mutable_data_ptr<int32_t>();
  call.before = before.mutable_data_ptr<int32_t>(), call.load = load.mutable_data_ptr<int64_t>();
  C10_CUDA_CHECK(kernels::expert_sort_cuda(call, c10::cuda::getCurrentCUDAStream()));
  return {token, slot, place, ends, load};
}

Tensor spread_cuda(const Tensor& given, const Tensor& place, const Tensor& token) {
  check_rows(given, "x");
  const int64_t tokens = given.size(0), k = tokens == 0 ? 0 : place.size(0) / tokens;
  const c10::cuda::CUDAGuard guard(given.device());
  const Tensor x = aligned(given), out = at::empty({token.size(0), x.size(1)}, x.options());
  C10_CUDA_CHECK(kernels::spread_rows_cuda(
      x.const_data_ptr(), ints(place, tokens * k, "place"), ints(token, out.size(0), "token"), out.mutable_data_ptr(),
      tokens, static_cast<int>(k), out.size(0), x.size(1), c10::cuda::getCurrentCUDAStream()));
  return out;
}

Tensor sum_cuda(const Tensor& given, const Tensor& place, int64_t k) {
  check_rows(given, "rows");
  TORCH_CHECK(k > 0 && place.size(0) % k == 0, "[gather_sum] ", place.size(0), " places are no multiple of k, ", k);
  const c10::cuda::CUDAGuard guard(given.device());
  const Tensor rows = aligned(given), out = at::empty({place.size(0) / k, rows.size(1)}, rows.options());
  C10_CUDA_CHECK(kernels::gather_sum_cuda(rows.const_data_ptr(), ints(place, place.size(0), "place"),
                                          out.mutable_data_ptr(), out.size(0), static_cast<int>(k), rows.size(1),
                                          c10::cuda::getCurrentCUDAStream()));
  return out;
}

/// Two halves of whole vectors.
void check_halves(const Tensor& p) {
  TORCH_CHECK(p.size(1) % 16 == 0, "[weighted_swiglu] p has ", p.size(1), " columns, which is no multiple of 16");
}

Tensor swiglu_cuda(const Tensor& given, const Tensor& weights, const Tensor& slot) {
  check_rows(given, "p");
  check_halves(given);
  const c10::cuda::CUDAGuard guard(given.device());
  const Tensor p = aligned(given), out = at::empty({p.size(0), p.size(1) / 2}, p.options());
  C10_CUDA_CHECK(kernels::weighted_swiglu_cuda(p.const_data_ptr(), floats(weights), ints(slot, p.size(0), "slot"),
                                               out.mutable_data_ptr(), p.size(0), out.size(1),
                                               c10::cuda::getCurrentCUDAStream()));
  return out;
}

std::tuple<Tensor, Tensor, Tensor> backward_cuda(const Tensor& given, const Tensor& gradient, const Tensor& weights,
                                                 const Tensor& slot) {
  check_rows(given, "p");
  check_halves(given);
  check_rows(gradient, "u");
  TORCH_CHECK(gradient.size(0) == given.size(0) && 2 * gradient.size(1) == given.size(1), "[weighted_swiglu_backward] ",
              given.sizes(), " and ", gradient.sizes(), " do not fit");
  const c10::cuda::CUDAGuard guard(given.device());
  const Tensor p = aligned(given), u = aligned(gradient);
  Tensor gp = at::empty_like(p), out = at::empty_like(u), g = at::zeros_like(weights);
  C10_CUDA_CHECK(kernels::weighted_swiglu_backward_cuda(
      p.const_data_ptr(), u.const_data_ptr(), floats(weights), ints(slot, p.size(0), "slot"), gp.mutable_data_ptr(),
      out.mutable_data_ptr(), g.mutable_data_ptr<float>(), p.size(0), u.size(1), c10::cuda::getCurrentCUDAStream()));
  return {gp, out, g};
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("expert_sort", sort_cuda);
  m.impl("spread_rows", spread_cuda);
  m.impl("gather_sum", sum_cuda);
  m.impl("weighted_swiglu", swiglu_cuda);
  m.impl("weighted_swiglu_backward", backward_cuda);
}

}  // namespace siamese
