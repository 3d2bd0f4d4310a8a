#include "ops/column_sums.h"

namespace siamese {
namespace {

using at::Tensor;

Tensor sums_plain(const Tensor& t) { return t.reshape({-1, t.size(-1)}).sum(0); }
Tensor sums_meta(const Tensor& t) { return at::empty_symint({t.sym_size(-1)}, t.options()); }

class ColumnSumsFunction : public torch::autograd::Function<ColumnSumsFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& t) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({t});  // for its shape
    return column_sums(t);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    return {g[0].expand_as(ctx->get_saved_variables()[0])};
  }
};
Tensor sums_autograd(const Tensor& t) { return ColumnSumsFunction::apply(t); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) { m.def("column_sums(Tensor t) -> Tensor"); }
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("column_sums", sums_plain); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) { m.impl("column_sums", sums_meta); }
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("column_sums", sums_autograd); }

Tensor column_sums(const Tensor& t) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::column_sums", "").typed<decltype(column_sums)>();
  return op.call(t);
}

}  // namespace siamese
