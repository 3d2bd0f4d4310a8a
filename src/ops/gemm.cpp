#include "ops/gemm.h"

namespace siamese {

using at::Tensor;

Tensor gemm_plain(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return at::mm(transpose_a ? a.t() : a, transpose_b ? b.t() : b);
}

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def("gemm(Tensor a, Tensor b, bool transpose_a=False, bool transpose_b=False) -> Tensor");
}
TORCH_LIBRARY_IMPL(siamese, CompositeExplicitAutograd, m) { m.impl("gemm", gemm_plain); }

Tensor gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::gemm", "").typed<decltype(gemm)>();
  return op.call(a, b, transpose_a, transpose_b);
}

Tensor gemm_project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  Tensor out = gemm(x.reshape({-1, x.size(-1)}), weight, false, true).view(shape);
  return bias.defined() ? out.add_(bias) : out;
}

}  // namespace siamese
