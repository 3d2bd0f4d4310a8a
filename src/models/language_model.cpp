#include "models/language_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "models/lm_init.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/lm_head_loss.h"
#include "util/error.h"

namespace siamese {

LanguageModel::LanguageModel(const ModelConfig& config, const ModelOptions& options)
    : config_(config),
      options_(options),
      params_(options.dtype, options.device),
      rope_(config.d_model / config.n_heads, config.rope_theta) {
  if (config_.vocab_size <= 0) fail("model.vocab_size is {}: it must be set or come from the data", config_.vocab_size);
  const SchemeContext context{config_, params_, true, true, options.stream_dtype};
  const double embedding_std = embedding_deviation(config_);
  embedding_ = params_.add("transformer.wte.weight", {config_.vocab_size, config_.d_model}, ParamKind::embedding,
                           {InitSpec::normal, embedding_std, config_.init.cutoff});
  scheme_ = make_scheme(context);
  for (int l = 0; l < config_.n_layers; ++l) add_block(l, context);
  if (config_.weight_tying) {
    head_ = embedding_;
  } else {
    head_ = params_.add("transformer.ff_out.weight", {config_.vocab_size, config_.d_model}, ParamKind::matrix,
                        {InitSpec::normal, head_deviation(config_), config_.init.cutoff});
  }
  for (int l = 0; l < config_.n_layers; ++l) {
    // What block l-1 left pending is written inside block l, with norms of block l-1.
    std::vector<at::Tensor>& all = blocks_[static_cast<size_t>(l)].params;
    for (int used = std::max(0, l - 1); used <= l; ++used)
      for (const at::Tensor& p : params_.with_prefix(fmt::format("transformer.blocks.{}.", used))) all.push_back(p);
  }
}

void LanguageModel::add_block(int l, const SchemeContext& context) {
  const std::string name = fmt::format("transformer.blocks.{}.", l);
  const int64_t d = config_.d_model, heads = config_.n_heads, kv = config_.n_kv_heads, hd = d / heads;
  auto matrix = [&](const char* part, int64_t in, int64_t out, const InitSpec& spec) {
    return Linear::make(params_, name + part, in, out, config_.bias, spec);
  };
  const Initialiser init(config_, *scheme_, l);
  Block block;
  Attention& a = block.attention;
  a.block = l, a.heads = heads, a.kv_heads = kv, a.head_dim = hd;
  a.dropout = config_.attention_dropout;
  a.fused = config_.fused;
  a.rope = &rope_;
  a.qkv = matrix("att_proj", d, (heads + 2 * kv) * hd, init.qkv((heads + kv) * hd));
  a.out = matrix("attn_out", d, d, init.of(Role::output, d));
  const AttentionNorm wanted = scheme_->attention_norm({2 * l});
  a.whole_projection = config_.qk_norm == "projection" && wanted == AttentionNorm::none;
  auto head_norm = [&](const char* part, int64_t count) {
    return context.norm(fmt::format("blocks.{}.{}", l, part), a.whole_projection ? count * hd : hd);
  };
  if (wanted != AttentionNorm::none || config_.qk_norm != "none") {
    a.q_norm = head_norm("q_norm", heads);
    a.k_norm = head_norm("k_norm", kv);
  }
  if (wanted == AttentionNorm::qkv) a.v_norm = head_norm("v_norm", kv);
  FeedForward& f = block.feed_forward;
  f.activation = config_.activation == "gelu" ? Activation::gelu : Activation::swiglu;
  f.fused = config_.fused;
  f.rebuild = options_.recompute >= Recompute::feed_forward;
  const int64_t hidden = config_.mlp_hidden_size, width = f.activation == Activation::swiglu ? hidden / 2 : hidden;
  f.in = matrix("ff_proj", d, hidden, init.of(Role::ff_in, d));
  f.out = matrix("ff_out", width, d, init.of(Role::ff_out, width));
  blocks_.push_back(std::move(block));
}

Streams LanguageModel::sublayer(const Block& block, const Site& site, Streams streams, const Forward& forward) const {
  Modulation modulation;
  modulation.into = site.attention() ? &block.attention.qkv : &block.feed_forward.in;
  modulation.keep = options_.recompute == Recompute::none;
  const FeedForward& f = block.feed_forward;
  modulation.swiglu = !site.attention() && f.rebuild && f.fused && f.activation == Activation::swiglu;
  Read read = scheme_->read(std::move(streams), site, modulation);
  Update update;
  update.r = site.attention() ? block.attention(read.input, forward) : f(read.input, read.activated);
  if (forward.probe) {
    const char* part = site.attention() ? "attention" : "feed-forward";
    forward.see(fmt::format("projected input of the {} of block {}", part, site.block()), read.input);
    forward.see(fmt::format("output of the {} of block {}", part, site.block()), update.r);
  }
  if (forward.training) {
    update.r = dropout(update.r, config_.residual_dropout, forward.draw(update.r, kResidualDropout, site.k));
    const double p = config_.drop_path * (site.k + 1) / static_cast<double>(2 * config_.n_layers);
    if (p > 0) {
      const at::Tensor ones = at::ones({read.input.size(0)}, read.input.options());
      update.row_scale = dropout(ones, p, forward.draw(ones, kDropPath, site.k));
    }
  }
  return scheme_->write(std::move(read.streams), std::move(update), site);
}

Streams LanguageModel::run_block(const Block& block, int l, Streams streams, const Forward& forward) const {
  streams = sublayer(block, {2 * l}, std::move(streams), forward);
  return sublayer(block, {2 * l + 1}, std::move(streams), forward);
}

at::Tensor LanguageModel::hidden(const at::Tensor& ids, const Forward& forward) const {
  at::Tensor e = embed_tokens(embedding_, ids, config_.fused);
  forward.see("embedding", e);
  if (forward.training) e = dropout(e, config_.embedding_dropout, forward.draw(e, kEmbeddingDropout, 0));
  Streams streams = scheme_->start(e);
  // Streams that begin as one tensor collect their gradients apart and add them once, recomputed or not: same bits.
  for (size_t i = 1; i < streams.s.size(); ++i) streams.s[i] = streams.s[i].view_as(streams.s[i]);
  const bool again = options_.recompute == Recompute::block && at::GradMode::is_enabled() && !forward.probe;
  for (int l = 0; l < config_.n_layers; ++l) {
    const Block& block = blocks_[static_cast<size_t>(l)];
    if (!again) {
      streams = run_block(block, l, std::move(streams), forward);
      continue;
    }
    // The structure of what a block returns is known after its first run, which happens inside `recompute`.
    auto after = std::make_shared<Streams>();
    auto run = [this, &block, l, before = streams.skeleton(), forward, after](const std::vector<at::Tensor>& in) {
      const Streams out = run_block(block, l, Streams::unflatten(before, in), forward);
      *after = out.skeleton();
      return out.flatten();
    };
    const std::vector<at::Tensor> out = recompute(run, streams.flatten(), block.params);
    streams = Streams::unflatten(*after, out);
  }
  const at::Tensor h = scheme_->finish(std::move(streams));
  forward.see("final norm", h);
  return h;
}

at::Tensor LanguageModel::logits(const at::Tensor& hidden) const { return project(hidden, head_); }

LmLoss LanguageModel::loss(const at::Tensor& ids, const Forward& forward, double z_weight, int64_t ignore,
                           double scale) const {
  const at::Tensor h = hidden(ids.slice(1, 0, ids.size(1) - 1).contiguous(), forward).flatten(0, 1);
  if (forward.probe) forward.see("logits", logits(h));  // fused, they never exist as a whole
  const HeadLoss loss = lm_head_loss(h, head_, ids.slice(1, 1).reshape({-1}), {ignore, z_weight, scale}, config_.fused);
  return {loss.total, loss.ce};
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

at::Tensor document_numbers(const at::Tensor& ids, int64_t eos) {
  const at::Tensor ends = (ids == eos).to(at::kLong);
  return ends.cumsum(1) - ends;  // the end belongs to its own document
}

}  // namespace siamese
