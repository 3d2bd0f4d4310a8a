#include "ops/gemm_qkv_norm.h"

#include "kernels/head_gain.h"
#include "ops/gemm_qkv_rope.h"
#include "ops/product_backward.h"
#include "ops/qkv_rope.h"
#include "ops/rope.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;
using Results = std::tuple<Tensor, Tensor, Tensor>;

void check(const Tensor& x, const Tensor& weight, at::TensorList gains, const Tensor& cos, const Tensor& sin,
           int64_t heads, int64_t kv_heads, int64_t length) {
  gemm_qkv_rope_check(x, weight, cos, sin, heads, kv_heads, length);
  TORCH_CHECK(gains.size() == 3, "[gemm_qkv_norm] gains must be those of q, k and v but are ", gains.size());
  for (const Tensor& gain : gains)
    TORCH_CHECK(gain.dim() == 1 && gain.size(0) == 2 * cos.size(1), "[gemm_qkv_norm] a gain must be [", 2 * cos.size(1),
                "] but is ", gain.sizes());
}

AttentionCore core_of(const variable_list& gains, const Tensor& cos, const Tensor& sin, double eps, int64_t heads,
                      int64_t kv_heads, int64_t length) {
  AttentionCore core{heads, kv_heads, 2 * cos.size(1), {}, cos.slice(0, 0, length), sin.slice(0, 0, length), {}, 0};
  for (size_t i = 0; i < 3; ++i) core.norm[i] = {true, NormKind::rms, eps, gains[i], {}};
  return core;
}

Results plain(const Tensor& x, const Tensor& weight, at::TensorList gains, const Tensor& cos, const Tensor& sin,
              double eps, int64_t heads, int64_t kv_heads, int64_t length, bool) {
  const QkvNormed n = gemm_qkv_norm_apart(x, weight, gains, cos, sin, eps, heads, kv_heads, length);
  return {n.out, n.raw, n.rho};
}
Results meta(const Tensor& x, const Tensor& weight, at::TensorList, const Tensor& cos, const Tensor&, double,
             int64_t heads, int64_t kv_heads, int64_t, bool) {
  const auto m = x.sym_size(0), dim = 2 * cos.sym_size(1);
  return {at::empty_symint({m, weight.sym_size(0)}, x.options()),
          at::empty_symint({m, (heads + kv_heads) * dim}, x.options()),
          at::empty_symint({heads + 2 * kv_heads, m},
                           x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat))};
}
Results call(const Tensor& x, const Tensor& weight, at::TensorList gains, const Tensor& cos, const Tensor& sin,
             double eps, int64_t heads, int64_t kv_heads, int64_t length, bool lean) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::gemm_qkv_norm", "").typed<decltype(call)>();
  return op.call(x, weight, gains, cos, sin, eps, heads, kv_heads, length, lean);
}

/// The product is computed again: its part of v is not kept.
class GemmQkvNorm : public torch::autograd::Function<GemmQkvNorm> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               at::TensorList gains, const Tensor& cos, const Tensor& sin, double eps, int64_t heads,
                               int64_t kv_heads, int64_t length, bool lean) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, weight, gains[0], gains[1], gains[2], cos, sin});
    ctx->saved_data["sizes"] = std::vector<int64_t>{heads, kv_heads, length};
    ctx->saved_data["eps"] = eps;
    const auto [out, raw, rho] = call(x, weight, gains, cos, sin, eps, heads, kv_heads, length, lean);
    ctx->mark_non_differentiable({raw, rho});
    return {out, raw, rho};
  }
  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const std::vector<int64_t> n = ctx->saved_data["sizes"].toIntVector();
    const AttentionCore core =
        core_of({s[2], s[3], s[4]}, s[5], s[6], ctx->saved_data["eps"].toDouble(), n[0], n[1], n[2]);
    auto by_heads = [&](const Tensor& t) {
      return t.contiguous().view({t.size(0) / n[2], n[2], n[0] + 2 * n[1], core.head_dim});
    };
    const Tensor g = by_heads(grads[0]), p = by_heads(gemm(s[0], s[1], false, true));
    const std::vector<Tensor> all =
        qkv_rope_backward(g.narrow(2, 0, n[0]), g.narrow(2, n[0], n[1]), g.narrow(2, n[0] + n[1], n[1]), p, core);
    variable_list result = product_backward(*ctx, all[0].view(grads[0].sizes()), s[0], s[1], 12);
    for (size_t i = 0; i < 3; ++i) result[2 + i] = all[1 + i];
    return result;
  }
};

Results autograd(const Tensor& x, const Tensor& weight, at::TensorList gains, const Tensor& cos, const Tensor& sin,
                 double eps, int64_t heads, int64_t kv_heads, int64_t length, bool lean) {
  check(x, weight, gains, cos, sin, heads, kv_heads, length);
  const variable_list out = GemmQkvNorm::apply(x, weight, gains, cos, sin, eps, heads, kv_heads, length, lean);
  return {out[0], out[1], out[2]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "gemm_qkv_norm(Tensor x, Tensor weight, Tensor[] gains, Tensor cos, Tensor sin, float eps, int heads, int "
      "kv_heads, int length, bool lean=False) -> (Tensor out, Tensor raw, Tensor rho)");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("gemm_qkv_norm", plain); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) { m.impl("gemm_qkv_norm", meta); }
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("gemm_qkv_norm", autograd); }

Tensor head_gain(const Tensor& gain, at::ScalarType type) {
  const Tensor g = gain.to(type);
  return at::where(g.abs() < kernels::kLeastGain, at::full_like(g, kernels::kLeastGain), g);
}

Tensor gains_tell(at::TensorList gains) {
  const Tensor pairs = head_gain(at::stack({gains[0], gains[1]}), at::kFloat).abs().view({2, 2, -1});
  const Tensor a = pairs.select(1, 0), b = pairs.select(1, 1);
  return (a <= kernels::kAlikeGains * b).logical_and(b <= kernels::kAlikeGains * a).all();
}

QkvNormed gemm_qkv_norm(const Tensor& x, const Tensor& weight, at::TensorList gains, const Tensor& cos,
                        const Tensor& sin, double eps, int64_t heads, int64_t kv_heads, int64_t length, bool lean) {
  const auto [out, raw, rho] = call(x, weight, gains, cos, sin, eps, heads, kv_heads, length, lean);
  return {out, raw, rho};
}

QkvNormed gemm_qkv_norm_apart(const Tensor& x, const Tensor& weight, at::TensorList gains, const Tensor& cos,
                              const Tensor& sin, double eps, int64_t heads, int64_t kv_heads, int64_t length) {
  check(x, weight, gains, cos, sin, heads, kv_heads, length);
  const int64_t dim = 2 * cos.size(1), all = heads + 2 * kv_heads, m = x.size(0);
  const auto exact = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor p = gemm(x, weight, false, true);
  const Tensor wide = p.view({m / length, length, all, dim}).to(exact);
  const Tensor rho = at::rsqrt(wide.square().mean(-1, true) + eps);
  const std::vector<Tensor> parts = (wide * rho).split_with_sizes({heads, kv_heads, kv_heads}, 2);
  std::vector<Tensor> out;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor y = parts[i] * head_gain(gains[i], exact);
    out.push_back(i < 2 ? rope_plain(y, cos.slice(0, 0, length), sin.slice(0, 0, length)) : y);
  }
  return {at::cat(out, 2).view({m, all * dim}).to(x.scalar_type()),
          p.narrow(1, 0, (heads + kv_heads) * dim).contiguous(), rho.view({m, all}).t().contiguous()};
}

}  // namespace siamese
