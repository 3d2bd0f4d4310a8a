#include "ops/expert_ops.h"

#include "kernels/expert_layout.h"
#include "ops/experts.h"
#include "ops/gpu_tools.h"
#include "ops/kernel_types.h"

namespace siamese {
namespace {

using at::Tensor;
using Sorted = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Sorted sort_plain(const Tensor& chosen, int64_t experts, int64_t capacity) {
  const int64_t slots = chosen.numel(), rows = kernels::expert_rows_bound(slots, experts);
  // The rows without gaps; what an expert's neighbours are padded by moves its own on.
  const ExpertRows dense = expert_rows(chosen, experts, capacity);
  constexpr int64_t align = kernels::kExpertAlign;
  const Tensor ends = (dense.counts + (align - 1)).div(align, "floor").mul(align).clamp_min(align).cumsum(0);
  const Tensor begins = at::cat({at::zeros({1}, ends.options()), ends.slice(0, 0, experts - 1)});
  const Tensor moved = begins - (dense.counts.cumsum(0) - dense.counts);
  const Tensor& slot = dense.slot;
  const Tensor row =
      at::arange(slot.size(0), chosen.options()) + moved.index_select(0, chosen.reshape({-1}).index_select(0, slot));
  auto none = [&](int64_t size) { return at::full({size}, -1, chosen.options()); };
  return {none(rows).index_copy(0, row, dense.token).to(at::kInt), none(rows).index_copy(0, row, slot).to(at::kInt),
          none(slots).index_copy(0, slot, row).to(at::kInt), ends.to(at::kInt), dense.load};
}
Sorted sort_meta(const Tensor& chosen, int64_t experts, int64_t) {
  const auto slots = chosen.sym_numel(), rows = slots + kernels::kExpertAlign * experts;
  const auto ints = chosen.options().dtype(at::kInt);
  return {at::empty_symint({rows}, ints), at::empty_symint({rows}, ints), at::empty_symint({slots}, ints),
          at::empty_symint({experts}, ints), at::empty_symint({experts}, chosen.options())};
}

/// Rows of t by an index that may be -1: zero.
Tensor rows_or_zero(const Tensor& t, const Tensor& index) {
  const Tensor real = index >= 0;
  return t.index_select(0, index.clamp_min(0)) * real.to(t.scalar_type()).unsqueeze(1);
}

Tensor spread_plain(const Tensor& x, const Tensor&, const Tensor& token) { return rows_or_zero(x, token); }
Tensor spread_meta(const Tensor& x, const Tensor&, const Tensor& token) {
  return at::empty_symint({token.sym_size(0), x.sym_size(1)}, x.options());
}

Tensor sum_plain(const Tensor& rows, const Tensor& place, int64_t k) {
  const auto exact = rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return rows_or_zero(rows.to(exact), place).view({-1, k, rows.size(1)}).sum(1).to(rows.scalar_type());
}
Tensor sum_meta(const Tensor& rows, const Tensor& place, int64_t k) {
  return at::empty_symint({place.sym_size(0) / k, rows.sym_size(1)}, rows.options());
}

Tensor weights_of(const Tensor& weights, const Tensor& slot) {
  return rows_or_zero(weights.reshape({-1, 1}), slot);  // [R, 1]
}
Tensor swiglu_plain(const Tensor& p, const Tensor& weights, const Tensor& slot) {
  return (activate_plain(p, Activation::swiglu).to(weights.scalar_type()) * weights_of(weights, slot))
      .to(p.scalar_type());
}
Tensor swiglu_meta(const Tensor& p, const Tensor&, const Tensor&) {
  return at::empty_symint({p.sym_size(0), p.sym_size(1) / 2}, p.options());
}

std::tuple<Tensor, Tensor, Tensor> backward_plain(const Tensor& p, const Tensor& u, const Tensor& weights,
                                                  const Tensor& slot) {
  const Tensor w = weights_of(weights, slot), h = activate_plain(p, Activation::swiglu).to(weights.scalar_type());
  const auto [gp, again] =
      activation_backward((u.to(w.scalar_type()) * w).to(p.scalar_type()), p, Activation::swiglu, false);
  const Tensor real = (slot >= 0).nonzero().squeeze(1);
  const Tensor dots = (u.to(w.scalar_type()) * h).sum(1).index_select(0, real);
  const Tensor g = at::zeros_like(weights.reshape({-1})).index_copy(0, slot.index_select(0, real).to(at::kLong), dots);
  return {gp, (h * w).to(p.scalar_type()), g.view(weights.sizes())};
}
std::tuple<Tensor, Tensor, Tensor> backward_meta(const Tensor& p, const Tensor& u, const Tensor& weights,
                                                 const Tensor&) {
  return {at::empty_like(p), at::empty_like(u), at::empty_like(weights)};
}

/// Where LibTorch has products by groups of its own; elsewhere it takes them one by one and asks the GPU for the sizes.
bool by_groups(int capability) { return capability == 90 || capability == 100; }

/// f(e, first row, rows) for every group, on a CPU.
template <class F>
void over_groups(const Tensor& ends, const F& f) {
  const Tensor host = ends.to(at::kCPU, at::kLong);
  int64_t first = 0;
  for (int64_t e = 0; e < host.size(0); ++e) {
    const int64_t end = host.const_data_ptr<int64_t>()[e];
    f(e, first, end - first);
    first = end;
  }
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "expert_sort(Tensor chosen, int experts, int capacity=0) -> (Tensor token, Tensor slot, Tensor place, "
      "Tensor ends, Tensor load)");
  m.def("spread_rows(Tensor x, Tensor place, Tensor token) -> Tensor");
  m.def("gather_sum(Tensor rows, Tensor place, int k) -> Tensor");
  m.def("weighted_swiglu(Tensor p, Tensor weights, Tensor slot) -> Tensor");
  m.def("weighted_swiglu_backward(Tensor p, Tensor u, Tensor weights, Tensor slot) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("expert_sort", sort_plain);
  m.impl("spread_rows", spread_plain);
  m.impl("gather_sum", sum_plain);
  m.impl("weighted_swiglu", swiglu_plain);
  m.impl("weighted_swiglu_backward", backward_plain);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("expert_sort", sort_meta);
  m.impl("spread_rows", spread_meta);
  m.impl("gather_sum", sum_meta);
  m.impl("weighted_swiglu", swiglu_meta);
  m.impl("weighted_swiglu_backward", backward_meta);
}

PaddedRows expert_sort(const Tensor& chosen, int64_t experts, int64_t capacity) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::expert_sort", "").typed<decltype(sort_plain)>();
  const auto [token, slot, place, ends, load] = op.call(chosen, experts, capacity);
  return {token, slot, place, ends, load};
}
Tensor spread_rows(const Tensor& x, const Tensor& place, const Tensor& token) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::spread_rows", "").typed<decltype(spread_rows)>();
  return op.call(x, place, token);
}
Tensor gather_sum(const Tensor& rows, const Tensor& place, int64_t k) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::gather_sum", "").typed<decltype(gather_sum)>();
  return op.call(rows, place, k);
}
Tensor weighted_swiglu(const Tensor& p, const Tensor& weights, const Tensor& slot) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::weighted_swiglu", "").typed<decltype(weighted_swiglu)>();
  return op.call(p, weights, slot);
}
std::tuple<Tensor, Tensor, Tensor> weighted_swiglu_backward(const Tensor& p, const Tensor& u, const Tensor& weights,
                                                            const Tensor& slot) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::weighted_swiglu_backward", "")
                             .typed<decltype(weighted_swiglu_backward)>();
  return op.call(p, u, weights, slot);
}

Tensor product_by_groups(const Tensor& a, const Tensor& b, const Tensor& ends) {
  if (a.is_cuda()) return at::_grouped_mm(a, b, ends);
  Tensor out = at::zeros({a.size(0), b.size(2)}, a.options());
  over_groups(ends, [&](int64_t e, int64_t first, int64_t n) {
    out.narrow(0, first, n).copy_(at::mm(a.narrow(0, first, n), b[e]));
  });
  return out;
}
Tensor transposed_product_of_groups(const Tensor& a, const Tensor& b, const Tensor& ends) {
  if (a.is_cuda()) return at::_grouped_mm(a.t(), b, ends);
  Tensor out = at::empty({ends.size(0), a.size(1), b.size(1)}, a.options());
  over_groups(ends, [&](int64_t e, int64_t first, int64_t n) {
    out[e].copy_(at::mm(a.narrow(0, first, n).t(), b.narrow(0, first, n)));
  });
  return out;
}

bool expert_kernels_serve(at::IntArrayRef w1_shape, at::ScalarType type, at::Device device) {
  static const bool there = has_cuda_kernel("siamese::expert_sort");
  return there && device.is_cuda() && type == at::kBFloat16 &&
         kernels::experts_fit_kernels(w1_shape[0], w1_shape[1], w1_shape[2]) && gpu_tools() != nullptr &&
         by_groups(gpu_tools()->capability(device.index()));
}
bool expert_kernels_serve(const Tensor& x, const Tensor& w1) {
  return x.scalar_type() == w1.scalar_type() && expert_kernels_serve(w1.sizes(), x.scalar_type(), x.device());
}

}  // namespace siamese
