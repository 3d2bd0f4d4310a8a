#include "ops/linear.h"

#include "ops/column_sums.h"
#include "ops/gemm.h"

namespace siamese {
namespace {

constexpr int64_t kFewRows = 128;  // below this, preparing a oneDNN product costs more than it saves

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

/// How the three products of a layer are taken.
struct ByOnednn {
  static at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    at::Tensor out = product(x, weight);
    return bias ? out.add_(*bias) : out;
  }
  static at::Tensor of_input(const at::Tensor& g, const at::Tensor& weight) { return product(g, weight.t()); }
  static at::Tensor of_weight(const at::Tensor& g, const at::Tensor& x) { return at::mm(g.t(), x); }
};
struct ByGemm {
  static at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    return gemm(x, weight, false, true, bias);
  }
  static at::Tensor of_input(const at::Tensor& g, const at::Tensor& weight) { return gemm(g, weight, false, false); }
  static at::Tensor of_weight(const at::Tensor& g, const at::Tensor& x) { return gemm(g, x, true, false); }
};

/// y = x·Wᵀ + b
template <class Products>
class LinearFunction : public torch::autograd::Function<LinearFunction<Products>> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value();
    return Products::forward(x, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor g = grads[0].contiguous();
    at::Tensor gx, gw, gb;
    if (ctx->needs_input_grad(0)) gx = Products::of_input(g, saved[1]);
    if (ctx->needs_input_grad(1)) gw = Products::of_weight(g, saved[0]);
    if (ctx->saved_data["bias"].toBool()) gb = column_sums(g);
    return {gx, gw, gb};
  }
};

}  // namespace

at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t in = x.size(-1), rows = in == 0 ? 0 : x.numel() / in;
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  // Autograd asks an argument for its device: what is not there must not look like a tensor.
  const auto optional_bias = bias.defined() ? std::optional(bias) : std::nullopt;
  auto by = [&](auto products) {
    const at::Tensor flat = x.reshape({rows, in}).contiguous();
    return LinearFunction<decltype(products)>::apply(flat, weight, optional_bias).view(shape);
  };
  const bool both = x.scalar_type() == weight.scalar_type() && rows >= kFewRows;
  if (both && x.is_cuda() && x.scalar_type() == at::kBFloat16) return by(ByGemm{});
  if (both && x.device().is_cpu() && x.scalar_type() == at::kFloat && onednn()) return by(ByOnednn{});
  return at::linear(x, weight, optional_bias);
}

}  // namespace siamese
