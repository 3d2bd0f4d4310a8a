#include "ops/own_attention.h"

#include <cmath>

#include "ops/attention_plain.h"
#include "ops/gpu_tools.h"
#include "ops/kernel_types.h"
#include "ops/rope.h"

namespace siamese {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

std::tuple<Tensor, Tensor> forward_cpu(const Tensor& qkv, int64_t heads, int64_t kv_heads, bool causal) {
  const PlainAttended a = attention_plain(heads_of(qkv, heads, kv_heads), causal);
  // As the GPU has them: rows past the end sum to infinity.
  const int64_t t = qkv.size(1), rows = (t + 127) / 128 * 128;
  return {a.out.contiguous().to(qkv.scalar_type()),
          at::constant_pad_nd(a.log_sums * M_LOG2E, {0, rows - t}, std::numeric_limits<double>::infinity())};
}

Tensor backward_cpu(const Tensor& g, const Tensor& qkv, const Tensor& out, const Tensor&, bool,
                    const OptionalTensor& cos, const OptionalTensor& sin, int64_t heads, int64_t kv_heads,
                    bool causal) {
  const Heads gh = attention_plain_backward(g, heads_of(qkv, heads, kv_heads), out, causal);
  auto back = [&](const Tensor& t) { return cos.has_value() ? rope_plain(t.contiguous(), *cos, -*sin) : t; };
  return at::cat({back(gh.q), back(gh.k), gh.v}, 2).to(qkv.scalar_type());
}

std::tuple<Tensor, Tensor> forward_meta(const Tensor& qkv, int64_t heads, int64_t, bool) {
  const auto b = qkv.sym_size(0), t = qkv.sym_size(1);
  return {at::empty_symint({b, t, heads, qkv.sym_size(3)}, qkv.options()),
          at::empty_symint({b, heads, (t + 127) / 128 * 128},
                           qkv.options().dtype(qkv.scalar_type() == at::kDouble ? at::kDouble : at::kFloat))};
}
Tensor backward_meta(const Tensor&, const Tensor& qkv, const Tensor&, const Tensor&, bool, const OptionalTensor&,
                     const OptionalTensor&, int64_t, int64_t, bool) {
  return at::empty_symint(qkv.sym_sizes(), qkv.options());
}

std::tuple<Tensor, Tensor> call(const Tensor& qkv, int64_t heads, int64_t kv_heads, bool causal) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::attention", "").typed<decltype(call)>();
  return op.call(qkv, heads, kv_heads, causal);
}
Tensor call_backward(const Tensor& g, const Tensor& qkv, const Tensor& out, const Tensor& log_sums, bool natural,
                     const OptionalTensor& cos, const OptionalTensor& sin, int64_t heads, int64_t kv_heads,
                     bool causal) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::attention_backward", "")
                             .typed<decltype(call_backward)>();
  return op.call(g, qkv, out, log_sums, natural, cos, sin, heads, kv_heads, causal);
}

class OwnAttention : public torch::autograd::Function<OwnAttention> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, const Tensor& qkv, int64_t heads,
                                                int64_t kv_heads, bool causal) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [out, log_sums] = call(qkv, heads, kv_heads, causal);
    ctx->save_for_backward({qkv, out, log_sums});
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["kv_heads"] = kv_heads;
    ctx->saved_data["causal"] = causal;
    ctx->mark_non_differentiable({log_sums});
    return {out, log_sums};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    const auto s = ctx->get_saved_variables();
    return {call_backward(g[0].contiguous(), s[0], s[1], s[2], false, {}, {}, ctx->saved_data["heads"].toInt(),
                          ctx->saved_data["kv_heads"].toInt(), ctx->saved_data["causal"].toBool()),
            {},
            {},
            {}};
  }
};

std::tuple<Tensor, Tensor> forward_autograd(const Tensor& qkv, int64_t heads, int64_t kv_heads, bool causal) {
  const auto out = OwnAttention::apply(qkv, heads, kv_heads, causal);
  return {out[0], out[1]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("attention(Tensor qkv, int heads, int kv_heads, bool causal=True) -> (Tensor out, Tensor log_sums)");
  m.def(
      "attention_backward(Tensor g, Tensor qkv, Tensor out, Tensor log_sums, bool natural, Tensor? cos, Tensor? sin, "
      "int heads, int kv_heads, bool causal=True) -> Tensor");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("attention", forward_cpu);
  m.impl("attention_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("attention", forward_meta);
  m.impl("attention_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("attention", forward_autograd); }

bool own_attention_fits(int64_t head_dim, at::Device device) {
  static const bool there = has_cuda_kernel("siamese::attention");
  return there && device.is_cuda() && head_dim == 64 && gpu_tools() != nullptr &&
         gpu_tools()->capability(device.index()) == 90;
}

std::tuple<Tensor, Tensor> own_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads, bool causal) {
  return call(qkv, heads, kv_heads, causal);
}

Tensor own_attention_backward(const Tensor& g, const Tensor& qkv, const Tensor& out, const Tensor& log_sums,
                              bool natural, const Tensor& cos, const Tensor& sin, int64_t heads, int64_t kv_heads,
                              bool causal) {
  auto optional = [](const Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; };
  return call_backward(g, qkv, out, log_sums, natural, optional(cos), optional(sin), heads, kv_heads, causal);
}

}  // namespace siamese
