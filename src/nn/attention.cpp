#include "nn/attention.h"

#include <ATen/ATen.h>

#include <cmath>

#include "ops/attention.h"
#include "ops/own_attention.h"

namespace siamese {
namespace {

/// A norm over the last dimension: per head, or over the whole projection (heads flattened).
at::Tensor head_norm(const at::Tensor& t, const Norm& norm, bool whole, bool fused) {
  if (!norm.on) return t;
  if (whole) return apply_norm(t.flatten(-2), norm, t.scalar_type(), fused).view(t.sizes());
  return apply_norm(t, norm, t.scalar_type(), fused);
}

/// [B, 1, T, T] true where a token may look: not ahead, and inside its own document.
at::Tensor document_mask(const at::Tensor& documents) {
  const int64_t t = documents.size(1);
  const at::Tensor causal = at::ones({t, t}, documents.options().dtype(at::kBool)).tril();
  return ((documents.unsqueeze(2) == documents.unsqueeze(1)) & causal).unsqueeze(1);
}

/// Causal attention of documents, one after the other: no mask of all tokens by all tokens. q, k, v [B, heads, T, dim].
at::Tensor attend_by_documents(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::vector<int32_t>& ends) {
  const int64_t rows = q.size(0), length = q.size(2);
  TORCH_CHECK(!ends.empty() && ends.back() == rows * length, "[attention] the ends of documents are not those of ",
              rows, " x ", length, " tokens");
  if (rows == 0) return at::empty_like(q);
  std::vector<int64_t> sizes;
  for (size_t i = 1; i < ends.size(); ++i) sizes.push_back(ends[i] - ends[i - 1]);
  // One split, not slices: its backward is a single concatenation.
  auto split = [&](const at::Tensor& t) { return t.transpose(1, 2).flatten(0, 1).split_with_sizes(sizes, 0); };
  auto by_heads = [](const at::Tensor& t) { return t.transpose(0, 1).unsqueeze(0); };
  const std::vector<at::Tensor> qs = split(q), ks = split(k), vs = split(v);
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < sizes.size(); ++i)
    out.push_back(at::scaled_dot_product_attention(by_heads(qs[i]), by_heads(ks[i]), by_heads(vs[i]), {}, 0.0,
                                                   /*is_causal=*/true)
                      .squeeze(0)
                      .transpose(0, 1));
  return at::cat(out, 0).view({rows, length, q.size(1), q.size(3)}).transpose(1, 2);
}

}  // namespace

bool Attention::takes_packed(const Forward& forward) const {
  const bool drop = forward.training && dropout > 0;
  return fused && rope != nullptr && !drop && !whole_projection && forward.cache == nullptr &&
         (!forward.documents.defined() || forward.document_ends.defined());
}

bool Attention::packs_both_ways(const at::Tensor& projected, const Forward& forward) const {
  return fused && rope == nullptr && !(forward.training && dropout > 0) && !q_norm.on && !k_norm.on && !v_norm.on &&
         projected.scalar_type() == at::kBFloat16 && projected.size(1) <= kLongestBothWays &&
         own_attention_fits(head_dim, projected.device());
}

Turn Attention::turn(int64_t batch, int64_t length, const Forward& forward) const {
  const AttentionCore core{heads, kv_heads, head_dim, {q_norm, k_norm, v_norm}, {}, {}, forward.document_ends, 0};
  const bool normed = q_norm.on || k_norm.on || v_norm.on;
  if (qkv.bias.defined() || !takes_packed(forward) || !attention_core_fits(qkv.weight, core) ||
      (normed && !attention_takes_normed(batch, length, core, qkv.weight)))
    return {};
  const auto [cos, sin] = rope->angles(length, qkv.weight);
  if (!normed) return {cos, sin, heads, kv_heads};
  return {
      cos, sin, heads, kv_heads, {q_norm.gain, k_norm.gain, v_norm.gain}, q_norm.eps, std::make_shared<KeptHeads>()};
}

at::Tensor Attention::operator()(const at::Tensor& projected, const Forward& forward, const Turn& turn) const {
  const int64_t b = projected.size(0), t = projected.size(1);
  const bool turned = turn.cos.defined();
  if (takes_packed(forward)) {
    AttentionCore core{
        heads, kv_heads, head_dim, {q_norm, k_norm, v_norm}, {}, {}, forward.document_ends, forward.longest_document,
        turned};
    if (turn.kept) core.kept = *turn.kept;
    if (attention_core_fits(projected, core)) {
      std::tie(core.cos, core.sin) = rope->angles(t, projected);
      return out(attention_core(projected, core));
    }
  }
  if (packs_both_ways(projected, forward))
    return out(
        std::get<0>(own_attention(projected.view({b, t, heads + 2 * kv_heads, head_dim}), heads, kv_heads, false))
            .flatten(2));
  TORCH_CHECK(!turned, "[attention] a projection of type ", projected.scalar_type(), " came turned");
  const at::Tensor all = projected.view({b, t, heads + 2 * kv_heads, head_dim});
  // One split, not three slices: its backward is a single concatenation.
  const std::vector<at::Tensor> parts = all.split_with_sizes({heads, kv_heads, kv_heads}, 2);
  at::Tensor q = parts[0], k = parts[1], v = parts[2];
  q = head_norm(q, q_norm, whole_projection, fused);
  k = head_norm(k, k_norm, whole_projection, fused);
  v = head_norm(v, v_norm, whole_projection, fused);
  const int64_t first = forward.cache != nullptr ? forward.cache->length : 0;
  if (rope != nullptr) q = (*rope)(q, first, fused), k = (*rope)(k, first, fused);
  q = q.transpose(1, 2), k = k.transpose(1, 2), v = v.transpose(1, 2);
  if (forward.cache != nullptr) {
    at::Tensor &ck = forward.cache->k[static_cast<size_t>(block)], &cv = forward.cache->v[static_cast<size_t>(block)];
    ck.slice(2, first, first + t).copy_(k);
    cv.slice(2, first, first + t).copy_(v);
    k = ck.slice(2, 0, first + t);
    v = cv.slice(2, 0, first + t);
  }
  if (kv_heads != heads) {  // each key head serves heads/kv_heads neighbouring query heads
    k = k.repeat_interleave(heads / kv_heads, 1);
    v = v.repeat_interleave(heads / kv_heads, 1);
  }
  return out(attend(q, k, v, forward).transpose(1, 2).reshape({b, t, heads * head_dim}));
}

at::Tensor Attention::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const Forward& forward) const {
  const int64_t t = q.size(2), past = k.size(2) - t;
  const bool drop = forward.training && dropout > 0, causal = rope != nullptr;
  if (!drop && forward.documents.defined() && forward.host_document_ends && past == 0)
    return attend_by_documents(q, k, v, *forward.host_document_ends);
  if (!drop && !forward.documents.defined() && (past == 0 || t == 1))
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/causal && past == 0 && t > 1);
  const at::Tensor mask = forward.documents.defined()
                              ? document_mask(forward.documents)
                              : at::ones({t, past + t}, q.options().dtype(at::kBool)).tril(past);
  if (!drop) return at::scaled_dot_product_attention(q, k, v, mask);
  // Dropout on the probabilities: the plain path, softmax in fp32 or better.
  const auto exact = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)).to(exact) * (1.0 / std::sqrt(static_cast<double>(head_dim)));
  if (causal) scores = scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
  at::Tensor p = at::softmax(scores, -1).to(q.scalar_type());
  p = siamese::dropout(p, dropout, forward.draw(p, kAttentionDropout, block));
  return at::matmul(p, v);
}

}  // namespace siamese
