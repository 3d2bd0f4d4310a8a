#include "ops/linear.h"

#include "ops/gemm.h"

namespace siamese {
namespace {

constexpr int64_t kFewRows = 128;  // below this, preparing a oneDNN product costs more than it saves

/// y = x·Wᵀ through `siamese::gemm`, forward and backward.
class GemmFunction : public torch::autograd::Function<GemmFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, weight});
    return gemm(x, weight, false, true);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor g = grads[0].contiguous();
    at::Tensor gx, gw;
    if (ctx->needs_input_grad(0)) gx = gemm(g, saved[1], false, false);
    if (ctx->needs_input_grad(1)) gw = gemm(g, saved[0], true, false);
    return {gx, gw};
  }
};

/// a [rows, k] times bᵀ of b [n, k], by oneDNN. Strided inputs are taken as they are.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  using Scalars = c10::List<std::optional<at::Scalar>>;
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                               Scalars, std::optional<std::string_view>);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  return op.call(a, b, std::nullopt, "none", Scalars(), "");
}

bool onednn() {
  static const bool there = at::globalContext().hasMKLDNN() &&
                            c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""}).has_value();
  return there;
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, weight});
    return product(x, weight);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor g = grads[0].contiguous();
    at::Tensor gx, gw;
    if (ctx->needs_input_grad(0)) gx = product(g, saved[1].t());
    if (ctx->needs_input_grad(1)) gw = at::mm(g.t(), saved[0]);
    return {gx, gw};
  }
};

}  // namespace

at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t in = x.size(-1), rows = in == 0 ? 0 : x.numel() / in;
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  if (x.is_cuda() && x.scalar_type() == at::kBFloat16 && weight.scalar_type() == at::kBFloat16 && rows >= kFewRows) {
    const at::Tensor out = GemmFunction::apply(x.reshape({rows, in}).contiguous(), weight).view(shape);
    return bias.defined() ? out + bias : out;
  }
  const bool suits =
      x.device().is_cpu() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && rows >= kFewRows;
  if (!suits || !onednn()) return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  const at::Tensor out = LinearFunction::apply(x.reshape({rows, in}).contiguous(), weight).view(shape);
  return bias.defined() ? out + bias : out;
}

}  // namespace siamese
