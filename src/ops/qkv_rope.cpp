#include "ops/qkv_rope.h"

#include "ops/kernel_types.h"
#include "ops/rope.h"

namespace siamese {
namespace {

using at::Tensor;
using Optionals = c10::List<std::optional<Tensor>>;

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

Tensor rope_cpu(const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                int64_t kv_heads, int64_t flags, double eps) {
  return qkv_rope_plain(qkv, core_of(cos, sin, affine, heads, kv_heads, flags, eps));
}

Tensor call_out(const Tensor& out, const Tensor& qkv, const Tensor& cos, const Tensor& sin, Optionals affine,
                int64_t heads, int64_t kv_heads, int64_t flags, double eps) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::qkv_rope_out", "").typed<decltype(call_out)>();
  return op.call(out, qkv, cos, sin, std::move(affine), heads, kv_heads, flags, eps);
}

std::vector<Tensor> call_backward(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& qkv,
                                  const Tensor& cos, const Tensor& sin, Optionals affine, int64_t heads,
                                  int64_t kv_heads, int64_t flags, double eps) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::qkv_rope_backward", "").typed<decltype(call_backward)>();
  return op.call(gq, gk, gv, qkv, cos, sin, std::move(affine), heads, kv_heads, flags, eps);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  // The pass as plain operations, differentiable on any device: what the fused one is tested against.
  m.def(
      "qkv_rope(Tensor qkv, Tensor cos, Tensor sin, Tensor?[] affine, int heads, int kv_heads, int flags, float eps) "
      "-> "
      "Tensor",
      rope_cpu);
  m.def(
      "qkv_rope_out(Tensor(a!) out, Tensor qkv, Tensor cos, Tensor sin, Tensor?[] affine, int heads, int kv_heads, int "
      "flags, float eps) -> Tensor(a!)");
  m.def(
      "qkv_rope_backward(Tensor gq, Tensor gk, Tensor gv, Tensor qkv, Tensor cos, Tensor sin, Tensor?[] affine, int "
      "heads, int kv_heads, int flags, float eps) -> Tensor[]");
}

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

Tensor qkv_rope_plain(const Tensor& qkv, const AttentionCore& core) {
  const std::vector<Tensor> parts = qkv.split_with_sizes({core.heads, core.kv_heads, core.kv_heads}, 2);
  std::vector<Tensor> out;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor t = norm_plain(parts[i], core.norm[i], qkv.scalar_type());
    out.push_back(i < 2 ? rope_plain(t, core.cos, core.sin) : t);
  }
  return at::cat(out, 2);
}

}  // namespace siamese
