#include "ops/gemm.h"

#include "ops/column_sums.h"

namespace siamese {

using at::Tensor;

using OptionalTensor = std::optional<Tensor>;

Tensor gemm_plain(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const OptionalTensor& bias) {
  const Tensor first = transpose_a ? a.t() : a, second = transpose_b ? b.t() : b;
  return bias ? at::addmm(*bias, first, second) : at::mm(first, second);
}

namespace {

/// C = op(A)·op(B) + b:  g_op(A) = g·op(B)ᵀ,  g_op(B) = op(A)ᵀ·g,  g_b = Σ g over the rows.
class Gemm : public torch::autograd::Function<Gemm> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& a, const Tensor& b, bool ta, bool tb,
                        const OptionalTensor& bias) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({a, b});
    ctx->saved_data["ta"] = ta;
    ctx->saved_data["tb"] = tb;
    ctx->saved_data["bias"] = bias.has_value();
    return gemm(a, b, ta, tb, bias);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto s = ctx->get_saved_variables();
    const Tensor &a = s[0], &b = s[1], &g = grads[0];
    const bool ta = ctx->saved_data["ta"].toBool(), tb = ctx->saved_data["tb"].toBool();
    Tensor ga, gb;
    if (ctx->needs_input_grad(0)) ga = ta ? gemm(b, g, tb, true) : gemm(g, b, false, !tb);
    if (ctx->needs_input_grad(1)) gb = tb ? gemm(g, a, true, ta) : gemm(a, g, !ta, false);
    return {ga, gb, {}, {}, ctx->saved_data["bias"].toBool() ? column_sums(g) : Tensor()};
  }
};

Tensor gemm_meta(const Tensor& a, const Tensor& b, bool ta, bool tb, const OptionalTensor&) {
  return at::empty_symint({a.sym_size(ta ? 1 : 0), b.sym_size(tb ? 0 : 1)}, a.options());
}
Tensor gemm_autograd(const Tensor& a, const Tensor& b, bool ta, bool tb, const OptionalTensor& bias) {
  return Gemm::apply(a, b, ta, tb, bias);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("gemm(Tensor a, Tensor b, bool transpose_a=False, bool transpose_b=False, Tensor? bias=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("gemm", gemm_plain); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) { m.impl("gemm", gemm_meta); }
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("gemm", gemm_autograd); }

Tensor gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const OptionalTensor& bias) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::gemm", "").typed<decltype(gemm)>();
  return op.call(a, b, transpose_a, transpose_b, bias);
}

Tensor gemm_project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return gemm(x.reshape({-1, x.size(-1)}), weight, false, true, bias.defined() ? OptionalTensor(bias) : std::nullopt)
      .view(shape);
}

}  // namespace siamese
