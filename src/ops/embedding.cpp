#include "ops/embedding.h"

namespace siamese {
namespace {

using at::Tensor;

void check(const Tensor& weight, const Tensor& ids) {
  TORCH_CHECK(weight.dim() == 2, "[embedding] weight must have 2 dimensions but has ", weight.dim());
  TORCH_CHECK(ids.device() == weight.device(), "[embedding] ids must be on ", weight.device(), " but are on ",
              ids.device());
  TORCH_CHECK(ids.scalar_type() == at::kLong, "[embedding] ids must be int64 but are ", ids.scalar_type());
}

Tensor forward(const Tensor& weight, const Tensor& ids) {
  check(weight, ids);
  return at::embedding(weight, ids);
}

Tensor forward_meta(const Tensor& weight, const Tensor& ids) {
  check(weight, ids);
  c10::SymDimVector shape(ids.sym_sizes().begin(), ids.sym_sizes().end());
  shape.push_back(weight.sym_size(1));
  return at::empty_symint(shape, weight.options());
}

Tensor backward_cpu(const Tensor& g, const Tensor& ids, int64_t vocab) {
  return at::embedding_dense_backward(g, ids, vocab, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
}
Tensor backward_meta(const Tensor& g, const Tensor&, c10::SymInt vocab) {
  return at::empty_symint({std::move(vocab), g.sym_size(-1)}, g.options());
}

Tensor call(const Tensor& weight, const Tensor& ids) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::embedding", "").typed<decltype(call)>();
  return op.call(weight, ids);
}
Tensor call_backward(const Tensor& g, const Tensor& ids, c10::SymInt vocab) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::embedding_backward", "")
                             .typed<decltype(call_backward)>();
  return op.call(g, ids, std::move(vocab));
}

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& weight, const Tensor& ids) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({ids});
    ctx->saved_data["vocab"] = weight.sym_size(0);
    return call(weight, ids);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    return {call_backward(g[0], ctx->get_saved_variables()[0], ctx->saved_data["vocab"].toSymInt()), {}};
  }
};

Tensor forward_autograd(const Tensor& weight, const Tensor& ids) { return EmbeddingFunction::apply(weight, ids); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("embedding(Tensor weight, Tensor ids) -> Tensor");
  m.def("embedding_backward(Tensor g, Tensor ids, SymInt vocab) -> Tensor");
}
TORCH_LIBRARY_IMPL(siamese, CompositeExplicitAutograd, m) { m.impl("embedding", forward); }
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("embedding_backward", backward_cpu); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("embedding", forward_meta);
  m.impl("embedding_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("embedding", forward_autograd); }

Tensor embed_tokens_plain(const Tensor& weight, const Tensor& ids) { return at::embedding(weight, ids); }

Tensor embed_tokens(const Tensor& weight, const Tensor& ids, bool fused) {
  if (!fused || (!weight.is_cpu() && weight.scalar_type() == at::kDouble)) return embed_tokens_plain(weight, ids);
  return call(weight, ids);
}

}  // namespace siamese
