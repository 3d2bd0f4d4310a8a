#include "ops/gemm_qkv_rope.h"

#include "ops/attention_norms.h"
#include "ops/gemm_qkv_norm.h"
#include "ops/product_backward.h"
#include "ops/qkv_rope.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

AttentionCore core_of(const Tensor& cos, const Tensor& sin, int64_t heads, int64_t kv_heads, int64_t length) {
  AttentionCore core;
  core.heads = heads, core.kv_heads = kv_heads, core.head_dim = 2 * cos.size(1);
  core.cos = cos.slice(0, 0, length), core.sin = sin.slice(0, 0, length);
  return core;
}

/// [m, (heads + 2 kv heads)·dim] as [m / length, length, heads + 2 kv heads, dim].
Tensor by_heads(const Tensor& p, const AttentionCore& core, int64_t length) {
  return p.view({p.size(0) / length, length, core.heads + 2 * core.kv_heads, core.head_dim});
}

}  // namespace

void gemm_qkv_rope_check(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, int64_t heads,
                         int64_t kv_heads, int64_t length) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1), "[gemm_qkv_rope] ", x.sizes(), " and ",
              weight.sizes(), " do not fit");
  TORCH_CHECK(length > 0 && x.size(0) % length == 0, "[gemm_qkv_rope] ", x.size(0), " rows are no multiple of ",
              length);
  TORCH_CHECK(cos.dim() == 2 && cos.sizes() == sin.sizes() && cos.size(0) >= length, "[gemm_qkv_rope] cos and sin of ",
              length, " positions are ", cos.sizes(), " and ", sin.sizes());
  TORCH_CHECK(heads > 0 && kv_heads > 0 && weight.size(0) == (heads + 2 * kv_heads) * 2 * cos.size(1),
              "[gemm_qkv_rope] the weight must have rows for ", heads, " + 2*", kv_heads, " heads of ", 2 * cos.size(1),
              " but has ", weight.size(0));
}

Tensor gemm_qkv_rope_apart(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, int64_t heads,
                           int64_t kv_heads, int64_t length) {
  gemm_qkv_rope_check(x, weight, cos, sin, heads, kv_heads, length);
  const AttentionCore core = core_of(cos, sin, heads, kv_heads, length);
  const Tensor p = gemm(x, weight, false, true), packed = by_heads(p, core, length);
  qkv_rope_out(packed, packed, core);
  return p;
}

namespace {

/// g_P = Rᵀ(g), then the product's: g_x = g_P·W, g_W = g_Pᵀ·x.
class GemmQkvRope : public torch::autograd::Function<GemmQkvRope> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Tensor& cos,
                        const Tensor& sin, int64_t heads, int64_t kv_heads, int64_t length) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, weight, cos, sin});
    ctx->saved_data["sizes"] = std::vector<int64_t>{heads, kv_heads, length};
    return gemm_qkv_rope(x, weight, cos, sin, heads, kv_heads, length);
  }
  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const std::vector<int64_t> n = ctx->saved_data["sizes"].toIntVector();
    const AttentionCore core = core_of(s[2], s[3], n[0], n[1], n[2]);
    const Tensor g = by_heads(grads[0].contiguous(), core, n[2]);
    // Without norms the projection itself is not needed: g stands for its shape.
    const Tensor g_p =
        qkv_rope_backward(g.narrow(2, 0, n[0]), g.narrow(2, n[0], n[1]), g.narrow(2, n[0] + n[1], n[1]), g, core)[0]
            .view(grads[0].sizes());
    return product_backward(*ctx, g_p, s[0], s[1], 7);
  }
};

Tensor meta(const Tensor& x, const Tensor& weight, const Tensor&, const Tensor&, int64_t, int64_t, int64_t) {
  return at::empty_symint({x.sym_size(0), weight.sym_size(0)}, x.options());
}
Tensor autograd(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, int64_t heads,
                int64_t kv_heads, int64_t length) {
  return GemmQkvRope::apply(x, weight, cos, sin, heads, kv_heads, length);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "gemm_qkv_rope(Tensor x, Tensor weight, Tensor cos, Tensor sin, int heads, int kv_heads, int length) -> Tensor");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("gemm_qkv_rope", gemm_qkv_rope_apart); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) { m.impl("gemm_qkv_rope", meta); }
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("gemm_qkv_rope", autograd); }

Tensor gemm_qkv_rope(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, int64_t heads,
                     int64_t kv_heads, int64_t length) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::gemm_qkv_rope", "").typed<decltype(gemm_qkv_rope)>();
  return op.call(x, weight, cos, sin, heads, kv_heads, length);
}

Tensor gemm_project_turned(const Tensor& x, const Tensor& weight, const Turn& turn) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor rows = x.reshape({-1, x.size(2)});
  Tensor out;
  if (turn.kept) {
    const bool lean = lean_norms();
    const QkvNormed n = gemm_qkv_norm(rows, weight, turn.gains, turn.cos, turn.sin, turn.eps, turn.heads, turn.kv_heads,
                                      x.size(1), lean);
    *turn.kept = {n.raw, n.rho, lean};
    out = n.out;
  } else {
    out = gemm_qkv_rope(rows, weight, turn.cos, turn.sin, turn.heads, turn.kv_heads, x.size(1));
  }
  return out.view({x.size(0), x.size(1), weight.size(0)});
}

namespace {

/// The gradients are those of a plain product.
class ProjectTurned : public torch::autograd::Function<ProjectTurned> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Turn& turn) {
    ctx->save_for_backward({x, weight});
    return gemm_project_turned(x, weight, turn);
  }
  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    return product_backward(*ctx, grads[0].reshape({-1, grads[0].size(2)}), s[0], s[1], 3);
  }
};

}  // namespace

Tensor project_turned(const Tensor& x, const Tensor& weight, const Turn& turn) {
  return ProjectTurned::apply(x, weight, turn);
}

}  // namespace siamese
