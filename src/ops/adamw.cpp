#include "ops/adamw.h"

namespace siamese {

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("adamw_plan_(Tensor(a!) control, float lr, int step) -> ()");
  m.def("adamw_accumulate_(Tensor(a!) sums, Tensor tensors, Tensor gradients, Tensor chunks, bool add) -> ()");
  m.def(
      "adamw_step_(Tensor(a!) control, Tensor tensors, Tensor gradients, Tensor chunks, Tensor(b!) partials, "
      "Tensor? loss) -> ()");
}

void adamw_plan(const AdamwBuffers& b, double lr, int64_t step) {
  using Signature = void(const at::Tensor&, double, int64_t);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::adamw_plan_", "").typed<Signature>();
  op.call(b.control, lr, step);
}

void adamw_accumulate(const AdamwBuffers& b, const at::Tensor& sums, bool add) {
  using Signature = void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::adamw_accumulate_", "").typed<Signature>();
  op.call(sums, b.tensors, b.gradients, b.chunks, add);
}

void adamw_step(const AdamwBuffers& b, const at::Tensor& loss) {
  using Signature = void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const std::optional<at::Tensor>&);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::adamw_step_", "").typed<Signature>();
  op.call(b.control, b.tensors, b.gradients, b.chunks, b.partials,
          loss.defined() ? std::optional<at::Tensor>(loss) : std::nullopt);
}

}  // namespace siamese
