#include "models/transformer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "models/init.h"
#include "models/make_mixture.h"
#include "util/error.h"

namespace siamese {
namespace {

Activation activation_of(const ModelConfig& config) {
  if (config.activation == "gelu") return Activation::gelu;
  return config.activation == "gelu_tanh" ? Activation::gelu_tanh : Activation::swiglu;
}

}  // namespace

at::Tensor path_scale(const ModelConfig& config, int sublayer, const Forward& forward, int64_t rows,
                      const at::TensorOptions& options) {
  const double last = static_cast<double>(std::max<int64_t>(1, config.n_layers - 1));
  const double p = config.family == "deit"
                       ? config.drop_path * (sublayer / 2) / last
                       : config.drop_path * (sublayer + 1) / static_cast<double>(2 * config.n_layers);
  const at::Tensor ones = at::ones({rows}, options);
  return dropout(ones, p, forward.draw(ones, kDropPath, sublayer));
}

Transformer::Transformer(const ModelConfig& config, const ModelOptions& options, Params& params, bool causal,
                         bool conditioned)
    : config_(config), options_(options), conditioned_(conditioned) {
  if (causal) rope_.emplace(config.d_model / config.n_heads, config.rope_theta);
  const SchemeContext context{config_, params, !conditioned, !conditioned, options.stream_dtype};
  scheme_ = make_scheme(context);
  for (int l = 0; l < config_.n_layers; ++l) add_block(l, context, params);
  for (int l = 0; l < config_.n_layers; ++l) {
    // What block l-1 left pending is written inside block l, with norms of block l-1.
    std::vector<at::Tensor>& all = blocks_[static_cast<size_t>(l)].params;
    for (int used = std::max(0, l - 1); used <= l; ++used)
      for (const at::Tensor& p : params.with_prefix(fmt::format("transformer.blocks.{}.", used))) all.push_back(p);
  }
}

void Transformer::add_block(int l, const SchemeContext& context, Params& params) {
  const std::string name = fmt::format("transformer.blocks.{}.", l);
  const int64_t d = config_.d_model, heads = config_.n_heads, kv = config_.n_kv_heads, hd = d / heads;
  auto matrix = [&](const char* part, int64_t in, int64_t out, const InitSpec& spec) {
    return Linear::make(params, name + part, in, out, config_.bias, spec);
  };
  const Initialiser init(config_, *scheme_, l);
  Block block;
  Attention& a = block.attention;
  a.block = l, a.heads = heads, a.kv_heads = kv, a.head_dim = hd;
  a.dropout = config_.attention_dropout;
  a.fused = config_.fused;
  a.rope = rope_ ? &*rope_ : nullptr;
  a.qkv = matrix("att_proj", d, (heads + 2 * kv) * hd, init.qkv((heads + kv) * hd, (heads + 2 * kv) * hd));
  a.out = matrix("attn_out", d, d, init.of(Role::output, d, d));
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
  add_feed_forward(block, l, params);
  if (conditioned_) block.modulation = Linear::make(params, name + "adaln", d, 6 * d, true, {InitSpec::constant, 0.0});
  blocks_.push_back(std::move(block));
}

void Transformer::add_feed_forward(Block& block, int l, Params& params) const {
  const std::string name = fmt::format("transformer.blocks.{}.", l);
  const Initialiser init(config_, *scheme_, l);
  const Activation activation = activation_of(config_);
  if (config_.moe.experts > 0 && l >= config_.moe.dense_blocks) {
    block.mixture = make_mixture(config_, init, params, name, activation);
    block.mixture.block = l;
    return;
  }
  FeedForward& f = block.feed_forward;
  f.activation = activation;
  f.fused = config_.fused;
  f.rebuild = options_.recompute >= Recompute::feed_forward;
  const int64_t d = config_.d_model, hidden = config_.mlp_hidden_size,
                width = activation == Activation::swiglu ? hidden / 2 : hidden;
  f.in = Linear::make(params, name + "ff_proj", d, hidden, config_.bias, init.of(Role::ff_in, d, hidden));
  f.out = Linear::make(params, name + "ff_out", width, d, config_.bias, init.of(Role::ff_out, width, d));
}

Streams Transformer::sublayer(const Block& block, const Site& site, Streams streams, const Forward& forward,
                              const std::vector<at::Tensor>& modulated) const {
  Modulation modulation;
  const bool mixed = !site.attention() && block.mixture.on();  // experts and router read the value as it is
  if (!mixed) modulation.into = site.attention() ? &block.attention.qkv : &block.feed_forward.in;
  modulation.keep = options_.recompute == Recompute::none;
  const FeedForward& f = block.feed_forward;
  modulation.swiglu = !site.attention() && !mixed && f.rebuild && f.fused && f.activation == Activation::swiglu;
  const size_t first = site.attention() ? 0 : 3;
  if (site.attention()) modulation.turn = block.attention.turn(streams.s[0].size(0), streams.s[0].size(1), forward);
  if (conditioned_) modulation.shift = modulated[first], modulation.scale = modulated[first + 1];
  Read read = scheme_->read(std::move(streams), site, modulation);
  Update update;
  update.r = site.attention() ? block.attention(read.input, forward, modulation.turn)
             : mixed          ? block.mixture(read.input, forward)
                              : f(read.input, read.activated);
  if (conditioned_) update.gate = modulated[first + 2];
  if (forward.probe) {
    const char* part = site.attention() ? "attention" : "feed-forward";
    forward.see(fmt::format("{}input of the {} of block {}", mixed ? "" : "projected ", part, site.block()),
                read.input);
    forward.see(fmt::format("output of the {} of block {}", part, site.block()), update.r);
  }
  if (forward.training) {
    update.r = dropout(update.r, config_.residual_dropout, forward.draw(update.r, kResidualDropout, site.k));
    if (forward.path_scales.defined()) {
      update.row_scale = forward.path_scales[site.k];
    } else if (config_.drop_path > 0) {
      update.row_scale = path_scale(config_, site.k, forward, read.input.size(0), read.input.options());
    }
  }
  return scheme_->write(std::move(read.streams), std::move(update), site);
}

Streams Transformer::run_block(const Block& block, int l, Streams streams, const Forward& forward,
                               const at::Tensor& condition) const {
  std::vector<at::Tensor> modulated;
  if (conditioned_) modulated = block.modulation(condition).chunk(6, 1);
  streams = sublayer(block, {2 * l}, std::move(streams), forward, modulated);
  return sublayer(block, {2 * l + 1}, std::move(streams), forward, modulated);
}

Streams Transformer::rerun_block(const Block& block, int l, const Streams& streams, const Forward& forward,
                                 const at::Tensor& condition) const {
  // The structure of what a block returns is known after its first run, which happens inside `recompute`. What a
  // mixture reports is returned like everything else: both runs have a report of their own.
  auto after = std::make_shared<Streams>();
  const bool reports = forward.routing != nullptr && block.mixture.on();
  auto run = [this, &block, l, before = streams.skeleton(), forward, after, reports](std::vector<at::Tensor> in) {
    at::Tensor given;
    if (conditioned_) given = in.back(), in.pop_back();
    RoutingReport report;
    Forward own = forward;
    own.routing = reports ? &report : nullptr;
    const Streams out = run_block(block, l, Streams::unflatten(before, in), own, given);
    *after = out.skeleton();
    std::vector<at::Tensor> tensors = out.flatten();
    if (reports) tensors.push_back(report.losses.at(0)), tensors.push_back(report.loads.at(0));
    return tensors;
  };
  std::vector<at::Tensor> in = streams.flatten();
  if (conditioned_) in.push_back(condition);
  std::vector<at::Tensor> out = recompute(run, in, block.params);
  if (reports) {
    forward.routing->loads.push_back(out.back().detach()), out.pop_back();
    forward.routing->losses.push_back(out.back()), out.pop_back();
  }
  return Streams::unflatten(*after, out);
}

int64_t Transformer::mixtures() const {
  return std::count_if(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.mixture.on(); });
}

void Transformer::balance_experts(const at::Tensor& loads) const {
  int64_t i = 0;
  for (const Block& b : blocks_) {
    if (!b.mixture.on()) continue;
    const at::Tensor load = loads[i++].slice(0, 0, config_.moe.experts);
    if (b.mixture.bias.defined()) move_bias(b.mixture.bias, load, config_.moe.bias_rate);
  }
}

at::Tensor Transformer::operator()(const at::Tensor& embedding, const Forward& forward,
                                   const at::Tensor& condition) const {
  Streams streams = scheme_->start(embedding);
  // Streams that begin as one tensor collect their gradients apart and add them once, recomputed or not: same bits.
  for (size_t i = 1; i < streams.s.size(); ++i) streams.s[i] = streams.s[i].view_as(streams.s[i]);
  const bool again = options_.recompute == Recompute::block && at::GradMode::is_enabled() && !forward.probe;
  for (int l = 0; l < config_.n_layers; ++l) {
    const Block& block = blocks_[static_cast<size_t>(l)];
    streams = again ? rerun_block(block, l, streams, forward, condition)
                    : run_block(block, l, std::move(streams), forward, condition);
  }
  const at::Tensor h = scheme_->finish(std::move(streams));
  forward.see("final norm", h);
  return h;
}

}  // namespace siamese
