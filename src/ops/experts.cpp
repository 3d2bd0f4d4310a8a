#include "ops/experts.h"

#include "ops/experts_cpu.h"

namespace siamese {
namespace {

using at::Tensor;

void check(const Tensor& x, const ExpertRows& rows, const Tensor& weights, const Tensor& w1, const Tensor& w2) {
  TORCH_CHECK(x.dim() == 2, "[experts] x must be [tokens, d] but is ", x.sizes());
  TORCH_CHECK(weights.dim() == 2 && weights.size(0) == x.size(0) && weights.numel() == rows.place.numel(),
              "[experts] weights must be [tokens, k] but are ", weights.sizes());
  TORCH_CHECK(w1.dim() == 3 && w2.dim() == 3 && w1.size(0) == w2.size(0) && w1.size(0) == rows.counts.size(0) &&
                  w1.size(2) == x.size(1) && w2.size(1) == x.size(1),
              "[experts] w1 must be [experts, hidden, d] and w2 [experts, d, width] but are ", w1.sizes(), " and ",
              w2.sizes());
}

}  // namespace

ExpertRows expert_rows(const Tensor& chosen, int64_t experts, int64_t capacity) {
  TORCH_CHECK(chosen.dim() == 2 && chosen.scalar_type() == at::kLong,
              "[expert_rows] chosen must be [tokens, k] int64 but is ", chosen.sizes());
  const Tensor expert = chosen.reshape({-1});
  ExpertRows rows;
  // Stable: within an expert in the order of the slots, so of the tokens.
  const auto [sorted, order] = at::sort(expert, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  rows.load = at::zeros({experts}, chosen.options()).scatter_add_(0, expert, at::ones_like(expert));
  rows.slot = order;
  rows.counts = rows.load;
  if (capacity > 0) {
    rows.counts = rows.load.clamp_max(capacity);
    const Tensor first = rows.load.cumsum(0) - rows.load;
    const Tensor rank = at::arange(expert.size(0), chosen.options()) - first.index_select(0, sorted);
    rows.slot = order.masked_select(rank < capacity);
  }
  rows.token = rows.slot.div(chosen.size(1), "floor");
  rows.place = at::full({expert.size(0)}, -1, chosen.options());
  rows.place.index_copy_(0, rows.slot, at::arange(rows.slot.size(0), chosen.options()));
  return rows;
}

Tensor experts_plain(const Tensor& x, const ExpertRows& rows, const Tensor& weights, const Tensor& w1, const Tensor& w2,
                     Activation kind) {
  check(x, rows, weights, w1, w2);
  const Tensor xs = x.index_select(0, rows.token), counts = rows.counts.to(at::kCPU);
  // Unbound, not indexed: the gradient of an index is as large as all experts.
  const std::vector<Tensor> in = w1.unbind(0), out = w2.unbind(0);
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (int64_t e = 0; e < counts.size(0); ++e) {
    const int64_t n = counts.const_data_ptr<int64_t>()[e];
    const size_t i = static_cast<size_t>(e);
    parts.push_back(at::linear(activate_plain(at::linear(xs.narrow(0, first, n), in[i]), kind), out[i]));
    first += n;
  }
  parts.push_back(at::zeros({1, x.size(1)}, xs.options()));  // for those who were dropped
  const Tensor ys = at::cat(parts);
  const Tensor place = rows.place.where(rows.place >= 0, at::full({}, first, rows.place.options()));
  const Tensor mine = ys.index_select(0, place).view({x.size(0), weights.size(1), x.size(1)});
  return (mine.to(weights.scalar_type()) * weights.unsqueeze(2)).sum(1).to(x.scalar_type());
}

Tensor experts(const Tensor& x, const ExpertRows& rows, const Tensor& weights, const Tensor& w1, const Tensor& w2,
               Activation kind, bool fused) {
  check(x, rows, weights, w1, w2);
  const bool known =
      x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble || x.scalar_type() == at::kBFloat16;
  if (fused && x.device().is_cpu() && known) return experts_cpu(x, rows, weights, w1, w2, kind);
  return experts_plain(x, rows, weights, w1, w2, kind);
}

}  // namespace siamese
