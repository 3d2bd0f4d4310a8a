#include "ops/rope.h"

#include "kernels/rope.h"
#include "ops/kernel_types.h"

namespace siamese {
namespace {

void check(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin) {
  TORCH_CHECK(t.dim() == 4 && t.size(3) % 2 == 0, "[rope] t must be [B, T, heads, even dim] but is ", t.sizes());
  TORCH_CHECK(cos.dim() == 2 && cos.size(0) == t.size(1) && cos.size(1) * 2 == t.size(3) && cos.sizes() == sin.sizes(),
              "[rope] cos and sin must be [", t.size(1), ", ", t.size(3) / 2, "] but are ", cos.sizes(), " and ",
              sin.sizes());
}

/// Everywhere but on the CPU, where a kernel does it.
at::Tensor rotate_plain(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin, bool inverse) {
  check(t, cos, sin);
  return rope_plain(t, cos, inverse ? -sin : sin);
}

at::Tensor rotate_cpu(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin, bool inverse) {
  check(input, cos, sin);
  const at::Tensor t = input.stride(3) == 1 ? input : input.contiguous(), c = cos.contiguous(), s = sin.contiguous();
  at::Tensor out = at::empty(t.sizes(), t.options());
  with_kernel_type(t.scalar_type(), "rope", [&](auto tag) {
    using T = decltype(tag);
    using C = kernels::compute_t<T>;
    kernels::RopeCall<T> call;
    call.in = in_ptr<T>(t), call.out = out_ptr<T>(out);
    call.cos = c.const_data_ptr<C>(), call.sin = s.const_data_ptr<C>();
    call.length = t.size(1), call.heads = t.size(2), call.dim = t.size(3);
    call.batch_stride = t.stride(0), call.token_stride = t.stride(1), call.head_stride = t.stride(2);
    call.sign = inverse ? C(-1) : C(1);
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, call.heads * call.dim));
    at::parallel_for(0, t.size(0) * t.size(1), grain,
                     [&](int64_t begin, int64_t end) { kernels::rope<T>(call, begin, end); });
  });
  return out;
}

at::Tensor rotate_meta(const at::Tensor& t, const at::Tensor&, const at::Tensor&, bool) {
  return at::empty_symint(t.sym_sizes(), t.options());
}

at::Tensor call(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin, bool inverse) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::rope", "").typed<decltype(call)>();
  return op.call(t, cos, sin, inverse);
}

/// A rotation's transpose is the rotation back: the same operator both ways.
class RopeFunction : public torch::autograd::Function<RopeFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& t, const at::Tensor& cos,
                            const at::Tensor& sin, bool inverse) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["inverse"] = inverse;
    return call(t, cos, sin, inverse);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    const auto saved = ctx->get_saved_variables();
    return {call(g[0], saved[0], saved[1], !ctx->saved_data["inverse"].toBool()), {}, {}, {}};
  }
};

at::Tensor rotate_autograd(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin, bool inverse) {
  return RopeFunction::apply(t, cos, sin, inverse);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) { m.def("rope(Tensor t, Tensor cos, Tensor sin, bool inverse=False) -> Tensor"); }
TORCH_LIBRARY_IMPL(siamese, CompositeExplicitAutograd, m) { m.impl("rope", rotate_plain); }
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("rope", rotate_cpu); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) { m.impl("rope", rotate_meta); }
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("rope", rotate_autograd); }

at::Tensor rope_plain(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin) {
  const at::Tensor exact = t.to(cos.scalar_type()), c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  const int64_t half = t.size(-1) / 2;
  const at::Tensor a = exact.slice(-1, 0, half), b = exact.slice(-1, half);
  return at::cat({a * c - b * s, b * c + a * s}, -1).to(t.scalar_type());
}

at::Tensor rope(const at::Tensor& t, const at::Tensor& cos, const at::Tensor& sin, bool fused) {
  return fused && t.device().is_cpu() ? call(t, cos, sin, false) : rope_plain(t, cos, sin);
}

}  // namespace siamese
