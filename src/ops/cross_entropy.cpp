#include "ops/cross_entropy.h"

#include "kernels/cross_entropy.h"
#include "ops/kernel_types.h"

namespace siamese {
namespace {

using at::Tensor;

void rows_cpu(Tensor& logits, const Tensor& targets, const Tensor& count, Tensor& losses, Tensor& squares,
              int64_t ignore, double scale, double z_factor, bool gradient) {
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const int64_t* const t = targets.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i)
    TORCH_CHECK_INDEX(t[i] == ignore || (t[i] >= 0 && t[i] < vocab), "[lm_head_loss] targets must be below ", vocab,
                      " or ", ignore, " but one is ", t[i]);
  with_kernel_type(logits.scalar_type(), "lm_head_loss", [&](auto tag) {
    using T = decltype(tag);
    using C = kernels::compute_t<T>;
    kernels::CrossEntropy<T> p;
    p.logits = out_ptr<T>(logits), p.targets = t;
    p.losses = out_ptr<C>(losses), p.squares = out_ptr<C>(squares);
    p.vocab = vocab, p.ignore = ignore;
    p.hit = static_cast<C>(scale / count.item<double>()), p.z_factor = static_cast<C>(z_factor);
    p.gradient = gradient;
    at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / vocab), [&](int64_t begin, int64_t end) {
      std::vector<C> scratch(std::is_same_v<T, C> ? 0 : static_cast<size_t>(vocab));
      kernels::cross_entropy_rows(p, begin, end, scratch.data());
    });
  });
}

void rows_meta(Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&, int64_t, double, double, bool) {}

void scale_cpu(Tensor& values, const Tensor& factor) {
  if (factor.item<double>() != 1.0) values.mul_(factor);
}
void scale_meta(Tensor&, const Tensor&) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "cross_entropy_rows_(Tensor(a!) logits, Tensor targets, Tensor count, Tensor(b!) losses, Tensor(c!) squares, int "
      "ignore, float scale, float z_factor, bool gradient) -> ()");
  m.def("scale_by_(Tensor(a!) values, Tensor factor) -> ()");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("cross_entropy_rows_", rows_cpu);
  m.impl("scale_by_", scale_cpu);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("cross_entropy_rows_", rows_meta);
  m.impl("scale_by_", scale_meta);
}

void cross_entropy_rows_(Tensor logits, const Tensor& targets, const Tensor& count, Tensor losses, Tensor squares,
                         const CrossEntropyFactors& factors, bool gradient) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::cross_entropy_rows_", "").typed<decltype(rows_cpu)>();
  op.call(logits, targets, count, losses, squares, factors.ignore, factors.scale, factors.z_factor, gradient);
}

Tensor scale_by_(Tensor values, const Tensor& factor) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::scale_by_", "").typed<decltype(scale_cpu)>();
  op.call(values, factor);
  return values;
}

}  // namespace siamese
