#include "ops/gemm_swiglu.h"

#include "ops/activation.h"
#include "ops/gemm.h"

namespace siamese {

using at::Tensor;
using torch::autograd::variable_list;

std::tuple<Tensor, Tensor> gemm_swiglu_apart(const Tensor& x, const Tensor& weight) {
  const Tensor p = gemm(x, weight, false, true);
  return {p, activate(p, Activation::swiglu)};
}

std::tuple<Tensor, Tensor> gemm_swiglu_backward_apart(const Tensor& g, const Tensor& weight, const Tensor& p) {
  return activation_backward(gemm(g, weight, false, false), p, Activation::swiglu, true);
}

namespace {

/// g_P += the activation's, then the product's: g_x = g_P·W, g_W = g_Pᵀ·x.
class GemmSwiglu : public torch::autograd::Function<GemmSwiglu> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& weight) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [p, h] = gemm_swiglu(x, weight);
    ctx->save_for_backward({x, weight, p});
    ctx->set_materialize_grads(false);
    return {p, h};
  }
  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list g) {
    const variable_list s = ctx->get_saved_variables();
    Tensor g_p = g[0];
    if (g[1].defined()) {
      const Tensor of_h = std::get<0>(activation_backward(g[1], s[2], Activation::swiglu, false));
      g_p = g_p.defined() ? g_p + of_h : of_h;
    }
    if (!g_p.defined()) return {{}, {}};
    return {gemm(g_p, s[1], false, false), gemm(g_p, s[0], true, false)};
  }
};

std::tuple<Tensor, Tensor> forward_meta(const Tensor& x, const Tensor& weight) {
  const auto m = x.sym_size(0), both = weight.sym_size(0);
  return {at::empty_symint({m, both}, x.options()), at::empty_symint({m, both / 2}, x.options())};
}
std::tuple<Tensor, Tensor> backward_meta(const Tensor& g, const Tensor& weight, const Tensor& p) {
  return {at::empty_symint(p.sym_sizes(), p.options()),
          at::empty_symint({g.sym_size(0), weight.sym_size(1)}, g.options())};
}

std::tuple<Tensor, Tensor> gemm_swiglu_autograd(const Tensor& x, const Tensor& weight) {
  const variable_list out = GemmSwiglu::apply(x, weight);
  return {out[0], out[1]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("gemm_swiglu(Tensor x, Tensor weight) -> (Tensor p, Tensor h)");
  m.def("gemm_swiglu_backward(Tensor g, Tensor weight, Tensor p) -> (Tensor g_p, Tensor h)");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("gemm_swiglu", gemm_swiglu_apart);
  m.impl("gemm_swiglu_backward", gemm_swiglu_backward_apart);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("gemm_swiglu", forward_meta);
  m.impl("gemm_swiglu_backward", backward_meta);
}

TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("gemm_swiglu", gemm_swiglu_autograd); }

std::tuple<Tensor, Tensor> gemm_swiglu(const Tensor& x, const Tensor& weight) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::gemm_swiglu", "").typed<decltype(gemm_swiglu)>();
  return op.call(x, weight);
}

std::tuple<Tensor, Tensor> gemm_project_swiglu(const Tensor& x, const Tensor& weight) {
  const auto [p, h] = gemm_swiglu(x.reshape({-1, x.size(-1)}), weight);
  std::vector<int64_t> shape = x.sizes().vec();
  auto like_x = [&](const Tensor& t) {
    shape.back() = t.size(1);
    return t.view(shape);
  };
  return {like_x(p), like_x(h)};
}

std::tuple<Tensor, Tensor> gemm_swiglu_backward(const Tensor& g, const Tensor& weight, const Tensor& p) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::gemm_swiglu_backward", "")
                             .typed<decltype(gemm_swiglu_backward)>();
  return op.call(g, weight, p);
}

}  // namespace siamese
