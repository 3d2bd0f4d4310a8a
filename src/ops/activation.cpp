#include "ops/activation.h"

#include "kernels/swiglu.h"
#include "ops/column_sums.h"
#include "ops/gemm.h"
#include "ops/gemm_swiglu.h"
#include "ops/kernel_types.h"
#include "ops/linear.h"

namespace siamese {
namespace {

using at::Tensor;

std::string_view approximation(int64_t kind) {
  return kind == static_cast<int64_t>(Activation::gelu_tanh) ? "tanh" : "none";
}

/// The shape of the output; throws where p does not fit.
c10::SymDimVector output_shape(const Tensor& p, int64_t kind) {
  TORCH_CHECK(kind >= 0 && kind <= 2, "[activation] kind must be 0 (swiglu), 1 (gelu) or 2 (gelu_tanh) but is ", kind);
  const bool halves = kind == static_cast<int64_t>(Activation::swiglu);
  TORCH_CHECK(p.dim() >= 1 && (!halves || p.sym_size(-1) % 2 == 0),
              "[activation] the last dimension must be even but p is ", p.sym_sizes());
  c10::SymDimVector shape(p.sym_sizes().begin(), p.sym_sizes().end());
  if (halves) shape.back() = shape.back() / 2;
  return shape;
}

template <class F>
void over_rows(const Tensor& p, const F& f) {
  const int64_t width = p.size(-1) / 2, rows = width == 0 ? 0 : p.numel() / (2 * width);
  at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)),
                   [&](int64_t begin, int64_t end) { f(width, begin, end); });
}

Tensor forward_cpu(const Tensor& input, int64_t kind) {
  const auto shape = output_shape(input, kind);
  if (kind != static_cast<int64_t>(Activation::swiglu)) return activation_forward_plain(input, kind);
  const Tensor p = input.contiguous();
  Tensor out = at::empty_symint(shape, p.options());
  with_kernel_type(p.scalar_type(), "activation", [&](auto tag) {
    using T = decltype(tag);
    over_rows(p, [&](int64_t width, int64_t begin, int64_t end) {
      kernels::swiglu_forward(in_ptr<T>(p), out_ptr<T>(out), width, begin, end);
    });
  });
  return out;
}

std::tuple<Tensor, Tensor> backward_cpu(const Tensor& gradient, const Tensor& input, int64_t kind, bool want_output) {
  if (kind != static_cast<int64_t>(Activation::swiglu))
    return activation_backward_plain(gradient, input, kind, want_output);
  const Tensor again = want_output ? forward_cpu(input, kind) : at::empty({0}, input.options());
  const Tensor p = input.contiguous(), g = gradient.contiguous();
  Tensor gp = at::empty_like(p);
  with_kernel_type(p.scalar_type(), "activation_backward", [&](auto tag) {
    using T = decltype(tag);
    over_rows(p, [&](int64_t width, int64_t begin, int64_t end) {
      kernels::swiglu_backward(in_ptr<T>(p), in_ptr<T>(g), out_ptr<T>(gp), width, begin, end);
    });
  });
  return {gp, again};
}

Tensor forward_meta(const Tensor& p, int64_t kind) { return at::empty_symint(output_shape(p, kind), p.options()); }
std::tuple<Tensor, Tensor> backward_meta(const Tensor& g, const Tensor& p, int64_t, bool want_output) {
  auto like = [](const Tensor& t) { return at::empty_symint(t.sym_sizes(), t.options()); };
  return {like(p), want_output ? like(g) : at::empty({0}, p.options())};
}

Tensor call(const Tensor& p, int64_t kind) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::activation", "").typed<decltype(call)>();
  return op.call(p, kind);
}
std::tuple<Tensor, Tensor> call_backward(const Tensor& g, const Tensor& p, int64_t kind, bool want_output) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::activation_backward", "")
                             .typed<decltype(call_backward)>();
  return op.call(g, p, kind, want_output);
}

class ActivationFunction : public torch::autograd::Function<ActivationFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& p, int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({p});
    ctx->saved_data["kind"] = kind;
    return call(p, kind);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    return {std::get<0>(call_backward(g[0], ctx->get_saved_variables()[0], ctx->saved_data["kind"].toInt(), false)),
            {}};
  }
};

Tensor forward_autograd(const Tensor& p, int64_t kind) { return ActivationFunction::apply(p, kind); }

/// r = activation(p)·Wᵀ + b. Backward: gh = g·W; gp and h = activation(p) in one pass; dW = gᵀ·h.
class ActivateProject : public torch::autograd::Function<ActivateProject> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& p, const Tensor& weight,
                        const std::optional<Tensor>& bias, int64_t kind, const std::optional<Tensor>& activated) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({p, weight});
    ctx->saved_data["kind"] = kind;
    ctx->saved_data["bias"] = bias.has_value();
    return gemm_project(activated.has_value() ? *activated : call(p, kind), weight, bias.value_or(Tensor()));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &p = saved[0], &weight = saved[1], flat = g[0].reshape({-1, g[0].size(-1)});
    const Tensor rows = p.reshape({-1, p.size(-1)});
    const auto kind = static_cast<Activation>(ctx->saved_data["kind"].toInt());
    const auto [gp, h] = kind == Activation::swiglu
                             ? gemm_swiglu_backward(flat, weight, rows)
                             : activation_backward(gemm(flat, weight, false, false), rows, kind, true);
    return {gp.view(p.sizes()), gemm(flat, h, true, false),
            ctx->saved_data["bias"].toBool() ? column_sums(flat) : Tensor(), Tensor(), Tensor()};
  }
};

/// Whether p is on a GPU with kernels open.
bool on_gpu(const Tensor& p) {
  static const bool there = has_cuda_kernel("siamese::activation");
  return p.is_cuda() && there;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("activation(Tensor p, int kind) -> Tensor");
  m.def("activation_backward(Tensor g, Tensor p, int kind, bool want_output=False) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("activation", forward_cpu);
  m.impl("activation_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("activation", forward_meta);
  m.impl("activation_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("activation", forward_autograd); }

bool activation_has_kernel(const Tensor& p, int64_t kind) {
  const int64_t halves = kind == static_cast<int64_t>(Activation::swiglu) ? 2 : 1;
  return kind >= 0 && kind <= 2 && p.dim() >= 1 && p.size(-1) % (8 * halves) == 0 &&
         (p.scalar_type() == at::kBFloat16 || p.scalar_type() == at::kFloat);
}

Tensor activation_forward_plain(const Tensor& p, int64_t kind) {
  output_shape(p, kind);  // checks
  return activate_plain(p.contiguous(), static_cast<Activation>(kind));
}

std::tuple<Tensor, Tensor> activation_backward_plain(const Tensor& gradient, const Tensor& input, int64_t kind,
                                                     bool want_output) {
  output_shape(input, kind);  // checks
  const Tensor p = input.contiguous(), g = gradient.contiguous();
  const Tensor again = want_output ? activation_forward_plain(p, kind) : at::empty({0}, p.options());
  if (kind != static_cast<int64_t>(Activation::swiglu)) return {at::gelu_backward(g, p, approximation(kind)), again};
  const int64_t half = p.size(-1) / 2;
  const Tensor value = p.slice(-1, 0, half), gate = p.slice(-1, half);
  return {at::cat({g * at::silu(gate), at::silu_backward(g * value, gate)}, -1), again};
}

Tensor activate_plain(const Tensor& p, Activation kind) {
  if (kind != Activation::swiglu) return at::gelu(p, approximation(static_cast<int64_t>(kind)));
  const int64_t half = p.size(-1) / 2;
  return p.slice(-1, 0, half) * at::silu(p.slice(-1, half));
}

Tensor activate(const Tensor& p, Activation kind, bool fused) {
  const bool on_cpu = p.device().is_cpu() && kind == Activation::swiglu;
  return fused && (on_cpu || on_gpu(p)) ? call(p, static_cast<int64_t>(kind)) : activate_plain(p, kind);
}

std::tuple<Tensor, Tensor> activation_backward(const Tensor& g, const Tensor& p, Activation kind, bool want_output) {
  return call_backward(g, p, static_cast<int64_t>(kind), want_output);
}

Tensor activate_and_project(const Tensor& p, Activation kind, const Tensor& weight, const Tensor& bias, bool fused,
                            const Tensor& activated) {
  if (!fused || !on_gpu(p) || !activation_has_kernel(p, static_cast<int64_t>(kind)))
    return project(activate(p, kind, fused), weight, bias);
  // Autograd asks an argument for its device: what is not there must not look like a tensor.
  auto there = [](const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
  return ActivateProject::apply(p, weight, there(bias), static_cast<int64_t>(kind), there(activated));
}

}  // namespace siamese
