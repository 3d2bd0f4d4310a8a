#include "models/language_model.h"

#include <ATen/ATen.h>

#include "models/init.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/lm_head_loss.h"
#include "util/error.h"

namespace siamese {

LanguageModel::LanguageModel(const ModelConfig& config, const ModelOptions& options)
    : config_(config), options_(options), params_(options.dtype, options.device) {
  if (config_.vocab_size <= 0) fail("model.vocab_size is {}: it must be set or come from the data", config_.vocab_size);
  embedding_ = params_.add("transformer.wte.weight", {config_.vocab_size, config_.d_model}, ParamKind::embedding,
                           {InitSpec::normal, embedding_deviation(config_), config_.init.cutoff});
  stack_ = std::make_unique<Transformer>(config_, options_, params_, /*causal=*/true, /*conditioned=*/false);
  if (config_.weight_tying) {
    head_ = embedding_;
  } else {
    head_ = params_.add("transformer.ff_out.weight", {config_.vocab_size, config_.d_model}, ParamKind::matrix,
                        {InitSpec::normal, head_deviation(config_), config_.init.cutoff});
  }
}

at::Tensor LanguageModel::hidden(const at::Tensor& ids, const Forward& forward) const {
  at::Tensor e = embed_tokens(embedding_, ids, config_.fused);
  forward.see("embedding", e);
  if (forward.training) e = dropout(e, config_.embedding_dropout, forward.draw(e, kEmbeddingDropout, 0));
  return (*stack_)(e, forward);
}

at::Tensor LanguageModel::logits(const at::Tensor& hidden) const { return project(hidden, head_); }

LmLoss LanguageModel::loss(const at::Tensor& ids, const Forward& forward, double z_weight, int64_t ignore,
                           double scale) const {
  RoutingReport report;
  Forward reported = forward;
  if (mixtures() > 0) reported.routing = &report;
  const at::Tensor h = hidden(ids.slice(1, 0, ids.size(1) - 1).contiguous(), reported).flatten(0, 1);
  if (forward.probe) forward.see("logits", logits(h));  // fused, they never exist as a whole
  const HeadLoss loss = lm_head_loss(h, head_, ids.slice(1, 1).reshape({-1}), {ignore, z_weight, scale}, config_.fused);
  if (mixtures() == 0) return {loss.total, loss.ce};
  const at::Tensor routers = at::stack(report.losses).mean(0);  // [2]
  // Balanced by biases, the loss is only watched.
  const double weights[2] = {config_.moe.balance == "loss" ? config_.moe.balance_weight : 0.0,
                             config_.moe.router_z_weight};
  at::Tensor total = loss.total;
  for (int64_t i = 0; i < 2; ++i)
    if (weights[i] != 0) total = total + scale * weights[i] * routers[i];
  const at::Tensor seen = routers.detach();
  return {total, loss.ce, seen[0], seen[1], at::stack(report.loads)};
}

HeadScores LanguageModel::scores(const at::Tensor& hidden, const at::Tensor& targets, int64_t ignore) const {
  return head_scores(hidden.flatten(0, 1), head_, targets.reshape({-1}), {.ignore = ignore}, config_.fused);
}

KvCache LanguageModel::make_cache(int64_t batch, int64_t capacity) const {
  KvCache cache;
  const auto options = at::TensorOptions().dtype(options_.dtype).device(options_.device);
  for (int64_t l = 0; l < config_.n_layers; ++l) {
    cache.k.push_back(at::zeros({batch, config_.n_kv_heads, capacity, config_.d_model / config_.n_heads}, options));
    cache.v.push_back(at::zeros_like(cache.k.back()));
  }
  return cache;
}

void LanguageModel::balance_experts(const at::Tensor& loads) const {
  if (config_.moe.balance == "bias") stack_->balance_experts(loads);
}

at::Tensor document_numbers(const at::Tensor& ids, int64_t eos) {
  const at::Tensor ends = (ids == eos).to(at::kLong);
  return ends.cumsum(1) - ends;  // the end belongs to its own document
}

}  // namespace siamese
