#include "ops/qkv_rope.h"

#include "ops/kernel_types.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;
using Optionals = c10::List<std::optional<Tensor>>;

constexpr size_t kAffine = 6;  // gains of q, k, v, then biases

Optionals optionals(const std::vector<Tensor>& tensors) {
  Optionals list;
  for (const Tensor& t : tensors) list.push_back(t.defined() ? std::optional(t) : std::nullopt);
  return list;
}

AttentionCore core_of(const Tensor& cos, const Tensor& sin, const Optionals& affine, int64_t heads, int64_t kv_heads,
                      int64_t flags, double eps) {
  AttentionCore core;
  core.heads = heads, core.kv_heads = kv_heads, core.head_dim = 2 * cos.size(1);
  core.cos = cos, core.sin = sin;
  for (size_t i = 0; i < 3; ++i) {
    core.norm[i].on = (flags & (kQkvNormQ << i)) != 0;
    core.norm[i].kind = (flags & kQkvLayer) != 0 ? NormKind::layer : NormKind::rms;
    core.norm[i].eps = eps;
    core.norm[i].gain = affine.get(i).value_or(Tensor());
    core.norm[i].bias = affine.get(3 + i).value_or(Tensor());
  }
  return core;
}

Tensor rope_plain_op(const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                     int64_t kv_heads, int64_t flags, double eps) {
  return qkv_rope_plain(qkv, core_of(cos, sin, affine, heads, kv_heads, flags, eps));
}
void out_plain(const Tensor& out, const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine,
               int64_t heads, int64_t kv_heads, int64_t flags, double eps) {
  Tensor(out).copy_(rope_plain_op(qkv, cos, sin, std::move(affine), heads, kv_heads, flags, eps));
}
std::vector<Tensor> backward_plain(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& qkv,
                                   const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                                   int64_t kv_heads, int64_t flags, double eps) {
  return qkv_rope_backward_plain(gq, gk, gv, qkv, core_of(cos, sin, affine, heads, kv_heads, flags, eps));
}

Tensor rope_meta(const Tensor& qkv, const Tensor&, const Tensor&, Optionals, int64_t, int64_t, int64_t, double) {
  return at::empty_symint(qkv.sym_sizes(), qkv.options());
}
void out_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor&, Optionals, int64_t, int64_t, int64_t,
              double) {}
std::vector<Tensor> backward_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor& qkv, const Tensor&,
                                  const Tensor&, Optionals affine, int64_t, int64_t, int64_t, double) {
  std::vector<Tensor> result{at::empty_symint(qkv.sym_sizes(), qkv.options())};
  for (size_t i = 0; i < kAffine; ++i)
    result.push_back(at::empty_symint({affine.get(i) ? qkv.sym_size(3) : c10::SymInt(0)}, qkv.options()));
  return result;
}

Tensor call(const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads, int64_t kv_heads,
            int64_t flags, double eps) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::qkv_rope", "").typed<decltype(call)>();
  return op.call(qkv, cos, sin, std::move(affine), heads, kv_heads, flags, eps);
}
void call_out(const Tensor& out, const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine,
              int64_t heads, int64_t kv_heads, int64_t flags, double eps) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::qkv_rope_out", "").typed<decltype(call_out)>();
  op.call(out, qkv, cos, sin, std::move(affine), heads, kv_heads, flags, eps);
}

std::vector<Tensor> call_backward(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& qkv,
                                  const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                                  int64_t kv_heads, int64_t flags, double eps) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::qkv_rope_backward", "").typed<decltype(call_backward)>();
  return op.call(gq, gk, gv, qkv, cos, sin, std::move(affine), heads, kv_heads, flags, eps);
}

/// `affine`: the gains and biases that are there, for autograd; `slots`: all of them, in the operators' order.
class QkvRopeFunction : public torch::autograd::Function<QkvRopeFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& qkv, const Tensor& cos, const Tensor& sin,
                        at::TensorList affine, const std::vector<Tensor>& slots, std::vector<int64_t> sizes,
                        double eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    variable_list kept{qkv, cos, sin};
    kept.insert(kept.end(), slots.begin(), slots.end());
    ctx->save_for_backward(kept);
    ctx->saved_data["sizes"] = sizes;
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["affine"] = static_cast<int64_t>(affine.size());
    return call(qkv, cos, sin, optionals(slots), sizes[0], sizes[1], sizes[2], eps);
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list g) {
    const variable_list s = ctx->get_saved_variables();
    const std::vector<Tensor> slots(s.begin() + 3, s.end());
    const std::vector<int64_t> n = ctx->saved_data["sizes"].toIntVector();
    const std::vector<Tensor> all =
        call_backward(g[0].narrow(2, 0, n[0]), g[0].narrow(2, n[0], n[1]), g[0].narrow(2, n[0] + n[1], n[1]), s[0],
                      s[1], s[2], optionals(slots), n[0], n[1], n[2], ctx->saved_data["eps"].toDouble());
    variable_list result{all[0], Tensor(), Tensor()};
    for (size_t i = 0; i < kAffine; ++i)
      if (slots[i].defined()) result.push_back(all[1 + i]);
    result.resize(3 + static_cast<size_t>(ctx->saved_data["affine"].toInt()) + 3);  // slots, sizes, eps have none
    return result;
  }
};

Tensor rope_autograd(const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                     int64_t kv_heads, int64_t flags, double eps) {
  TORCH_CHECK(affine.size() == kAffine, "[qkv_rope] affine must be gains of q, k, v, then biases, but has ",
              affine.size(), " entries");
  std::vector<Tensor> slots, there;
  for (size_t i = 0; i < kAffine; ++i) {
    slots.push_back(affine.get(i).value_or(Tensor()));
    if (slots.back().defined()) there.push_back(slots.back());
  }
  return QkvRopeFunction::apply(qkv, cos, sin, at::TensorList(there), slots,
                                std::vector<int64_t>{heads, kv_heads, flags}, eps);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "qkv_rope(Tensor qkv, Tensor cos, Tensor sin, Tensor?[] affine, int heads, int kv_heads, int flags, float eps) "
      "-> Tensor");
  m.def(
      "qkv_rope_out(Tensor(a!) out, Tensor qkv, Tensor cos, Tensor sin, Tensor?[] affine, int heads, int kv_heads, int "
      "flags, float eps) -> ()");
  m.def(
      "qkv_rope_backward(Tensor gq, Tensor gk, Tensor gv, Tensor qkv, Tensor cos, Tensor sin, Tensor?[] affine, int "
      "heads, int kv_heads, int flags, float eps) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("qkv_rope", rope_plain_op);
  m.impl("qkv_rope_out", out_plain);
  m.impl("qkv_rope_backward", backward_plain);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("qkv_rope", rope_meta);
  m.impl("qkv_rope_out", out_meta);
  m.impl("qkv_rope_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("qkv_rope", rope_autograd); }

int64_t qkv_flags(const AttentionCore& core) {
  int64_t flags = 0;
  for (int i = 0; i < 3; ++i) {
    if (!core.norm[i].on) continue;
    flags |= kQkvNormQ << i;
    if (core.norm[i].kind == NormKind::layer) flags |= kQkvLayer;
  }
  return flags;
}

double qkv_eps(const AttentionCore& core) {
  for (const Norm& n : core.norm)
    if (n.on) return n.eps;
  return 1e-5;
}

std::vector<Tensor> qkv_affine(const AttentionCore& core) {
  return {core.norm[0].gain, core.norm[1].gain, core.norm[2].gain,
          core.norm[0].bias, core.norm[1].bias, core.norm[2].bias};
}

bool qkv_has_cuda() {
  static const bool there = has_cuda_kernel("siamese::qkv_rope_out");
  return there;
}

void qkv_rope_out(Tensor out, const Tensor& qkv, const AttentionCore& core) {
  call_out(out, qkv, core.cos, core.sin, optionals(qkv_affine(core)), core.heads, core.kv_heads, qkv_flags(core),
           qkv_eps(core));
}

std::vector<Tensor> qkv_rope_backward(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& qkv,
                                      const AttentionCore& core) {
  return call_backward(gq, gk, gv, qkv, core.cos, core.sin, optionals(qkv_affine(core)), core.heads, core.kv_heads,
                       qkv_flags(core), qkv_eps(core));
}

}  // namespace siamese
