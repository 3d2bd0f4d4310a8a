#include "ops/attention_library.h"

namespace siamese {

using at::Tensor;

Heads heads_of(const Tensor& packed, int64_t heads, int64_t kv_heads) {
  return {packed.narrow(2, 0, heads), packed.narrow(2, heads, kv_heads), packed.narrow(2, heads + kv_heads, kv_heads)};
}

Attended cudnn_forward(const Heads& h) {
  const auto r = at::_scaled_dot_product_cudnn_attention(h.q.transpose(1, 2), h.k.transpose(1, 2), h.v.transpose(1, 2),
                                                         std::nullopt, /*compute_log_sumexp=*/true, 0.0,
                                                         /*is_causal=*/true, false, std::nullopt);
  return {std::get<0>(r).transpose(1, 2), std::get<1>(r), std::get<6>(r), std::get<7>(r)};
}

Heads cudnn_backward(const Tensor& g, const Heads& h, const Attended& a) {
  const int64_t t = h.q.size(1);
  const auto [gq, gk, gv] = at::_scaled_dot_product_cudnn_attention_backward(
      g.transpose(1, 2), h.q.transpose(1, 2), h.k.transpose(1, 2), h.v.transpose(1, 2), a.out.transpose(1, 2),
      a.log_sums, a.seed, a.offset, Tensor(), Tensor(), Tensor(), t, t, 0.0, /*is_causal=*/true, std::nullopt);
  return {gq.transpose(1, 2), gk.transpose(1, 2), gv.transpose(1, 2)};
}

Attended flash_forward(const Heads& h, const Tensor& ends, int64_t longest) {
  const bool packed = ends.defined();
  const std::optional<Tensor> cut = packed ? std::optional(ends) : std::nullopt;
  auto flat = [&](const Tensor& t) { return packed ? t.flatten(0, 1) : t; };
  const int64_t t = packed ? longest : h.q.size(1);
  const auto r = at::_flash_attention_forward(flat(h.q), flat(h.k), flat(h.v), cut, cut, t, t, 0.0, /*is_causal=*/true,
                                              false, std::nullopt);
  return {std::get<0>(r).view(h.q.sizes()), std::get<1>(r), std::get<2>(r), std::get<3>(r)};
}

Heads flash_backward(const Tensor& g, const Heads& h, const Attended& a, const Tensor& ends, int64_t longest) {
  const bool packed = ends.defined();
  auto flat = [&](const Tensor& t) { return packed ? t.flatten(0, 1) : t; };
  const int64_t t = packed ? longest : h.q.size(1);
  const auto [gq, gk, gv] = at::_flash_attention_backward(flat(g.contiguous()), flat(h.q), flat(h.k), flat(h.v),
                                                          flat(a.out), a.log_sums, ends, ends, t, t, 0.0,
                                                          /*is_causal=*/true, a.seed, a.offset, std::nullopt);
  return {gq.view(h.q.sizes()), gk.view(h.k.sizes()), gv.view(h.v.sizes())};
}

}  // namespace siamese
