#include "ops/attention_plain.h"

#include <cmath>

namespace siamese {
namespace {

using at::Tensor;

Tensor flip(const Tensor& t) { return t.transpose(-1, -2); }

Tensor join(const std::vector<Tensor>& parts) { return at::cat(parts, 1).transpose(1, 2); }

/// A key head and the query heads that share it, [B, count, T, dim], and their scores.
struct Group {
  int64_t first, count;
  at::ScalarType exact;
  Tensor q, k, v, s;
  double scale;

  Group(const Heads& h, int64_t key_head, bool causal)
      : count(h.q.size(2) / h.k.size(2)), exact(h.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat) {
    first = key_head * count;
    auto one = [&](const Tensor& t) { return t.narrow(2, key_head, 1).transpose(1, 2).to(exact); };
    q = of_queries(h.q), k = one(h.k), v = one(h.v);
    scale = 1.0 / std::sqrt(static_cast<double>(h.q.size(3)));
    s = at::matmul(q, flip(k)) * scale;
    const int64_t t = h.q.size(1);
    if (causal) s = s.masked_fill(at::ones({t, t}, h.q.options().dtype(at::kBool)).triu(1), -1e30);
  }
  Tensor of_queries(const Tensor& t) const { return t.narrow(2, first, count).transpose(1, 2).to(exact); }
};

}  // namespace

PlainAttended attention_plain(const Heads& h, bool causal) {
  std::vector<Tensor> out, log_sums;
  for (int64_t j = 0; j < h.k.size(2); ++j) {
    const Group a(h, j, causal);
    out.push_back(at::matmul(at::softmax(a.s, -1), a.v));
    log_sums.push_back(at::logsumexp(a.s, {-1}));
  }
  return {join(out), at::cat(log_sums, 1)};
}

Heads attention_plain_backward(const Tensor& g, const Heads& h, const Tensor& out, bool causal) {
  std::vector<Tensor> gq, gk, gv;
  for (int64_t j = 0; j < h.k.size(2); ++j) {
    const Group a(h, j, causal);
    const Tensor p = at::softmax(a.s, -1), go = a.of_queries(g), o = a.of_queries(out);
    const Tensor gs = p * (at::matmul(go, flip(a.v)) - (go * o).sum(-1, true)) * a.scale;
    gq.push_back(at::matmul(gs, a.k));
    gk.push_back(at::matmul(flip(gs), a.q).sum(1, true));
    gv.push_back(at::matmul(flip(p), go).sum(1, true));
  }
  return {join(gq), join(gk), join(gv)};
}

}  // namespace siamese
