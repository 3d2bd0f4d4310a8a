#include "ops/swiglu.h"

#include "kernels/swiglu.h"
#include "ops/kernel_types.h"

namespace siamese {
namespace {

std::vector<int64_t> with_last(const at::Tensor& t, int64_t last) {
  std::vector<int64_t> shape = t.sizes().vec();
  shape.back() = last;
  return shape;
}

void check(const at::Tensor& p) {
  TORCH_CHECK(p.dim() >= 1 && p.size(-1) % 2 == 0, "[swiglu] the last dimension must be even but p is ", p.sizes());
}

template <class F>
void over_rows(const at::Tensor& p, const F& f) {
  const int64_t width = p.size(-1) / 2, rows = width == 0 ? 0 : p.numel() / (2 * width);
  at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)),
                   [&](int64_t begin, int64_t end) { f(width, begin, end); });
}

at::Tensor forward_cpu(const at::Tensor& input) {
  check(input);
  const at::Tensor p = input.contiguous();
  at::Tensor out = at::empty(with_last(p, p.size(-1) / 2), p.options());
  with_kernel_type(p.scalar_type(), "swiglu", [&](auto tag) {
    using T = decltype(tag);
    over_rows(p, [&](int64_t width, int64_t begin, int64_t end) {
      kernels::swiglu_forward(in_ptr<T>(p), out_ptr<T>(out), width, begin, end);
    });
  });
  return out;
}

at::Tensor backward_cpu(const at::Tensor& gradient, const at::Tensor& input) {
  const at::Tensor p = input.contiguous(), g = gradient.contiguous();
  at::Tensor gp = at::empty_like(p);
  with_kernel_type(p.scalar_type(), "swiglu_backward", [&](auto tag) {
    using T = decltype(tag);
    over_rows(p, [&](int64_t width, int64_t begin, int64_t end) {
      kernels::swiglu_backward(in_ptr<T>(p), in_ptr<T>(g), out_ptr<T>(gp), width, begin, end);
    });
  });
  return gp;
}

at::Tensor forward_meta(const at::Tensor& p) {
  check(p);
  return at::empty(with_last(p, p.size(-1) / 2), p.options());
}
at::Tensor backward_meta(const at::Tensor&, const at::Tensor& p) { return at::empty_like(p); }

at::Tensor call(const at::Tensor& p) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::swiglu", "").typed<decltype(call)>();
  return op.call(p);
}
at::Tensor call_backward(const at::Tensor& g, const at::Tensor& p) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::swiglu_backward", "").typed<decltype(call_backward)>();
  return op.call(g, p);
}

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& p) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({p});
    return call(p);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    return {call_backward(g[0], ctx->get_saved_variables()[0])};
  }
};

at::Tensor forward_autograd(const at::Tensor& p) { return SwigluFunction::apply(p); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("swiglu(Tensor p) -> Tensor");
  m.def("swiglu_backward(Tensor g, Tensor p) -> Tensor");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("swiglu", forward_cpu);
  m.impl("swiglu_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("swiglu", forward_meta);
  m.impl("swiglu_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("swiglu", forward_autograd); }

at::Tensor swiglu_plain(const at::Tensor& p) {
  const int64_t half = p.size(-1) / 2;
  return p.slice(-1, 0, half) * at::silu(p.slice(-1, half));
}

at::Tensor swiglu(const at::Tensor& p, bool fused) { return fused && p.device().is_cpu() ? call(p) : swiglu_plain(p); }

}  // namespace siamese
