// Initial weights: deviation and truncation of every matrix in every block, and what two schemes share.
#include <cmath>

#include "tiny.h"

namespace siamese {
namespace {

constexpr int64_t kWidth = 64, kBlocks = 3, kHidden = 192;

ModelConfig config(const std::string& kind, const std::string& scheme = "pre") {
  ModelConfig c = tiny_config(scheme);
  c.d_model = kWidth;
  c.n_layers = kBlocks;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.mlp_hidden_size = kHidden;  // so that d_ff = 96 differs from d
  c.vocab_size = 256;
  c.weight_tying = false;
  c.init.kind = kind;
  c.init.std = 0.03;
  return c;
}

std::unique_ptr<LanguageModel> started(const ModelConfig& c, int64_t seed = 1) {
  auto model = std::make_unique<LanguageModel>(c, ModelOptions{});
  model->params().initialise(seed);
  return model;
}

const at::Tensor& value(const LanguageModel& model, const std::string& name) {
  return model.params().at("transformer." + name + ".weight").value;
}

std::string in_block(int64_t l, const std::string& name) { return fmt::format("blocks.{}.{}", l, name); }

/// A normal of deviation `std` cut at 3 deviations: its measured deviation is 0.98658 of that, nothing lies beyond, and
/// among thousands of numbers some lie near the cut.
void expect_truncated(const at::Tensor& t, double std, const std::string& name) {
  const at::Tensor x = t.detach().to(at::kDouble).flatten();
  const double n = static_cast<double>(x.numel()), measured = std::sqrt(x.square().mean().item<double>());
  const double slack = 4.0 / std::sqrt(2.0 * n);
  EXPECT_NEAR(measured / (0.98658 * std), 1.0, slack) << name;
  EXPECT_NEAR(x.mean().item<double>() / std, 0.0, 4.0 / std::sqrt(n)) << name;
  const double largest = x.abs().max().item<double>() / std;
  EXPECT_LE(largest, 3.0 + 1e-6) << name;
  EXPECT_GT(largest, 2.6) << name;
}

double root(double x) { return std::sqrt(x); }

TEST(LmInit, Mitchell) {
  const auto model = started(config("mitchell"));
  const double d = kWidth, ff = kHidden / 2;
  expect_truncated(value(*model, "wte"), 1 / root(d), "wte");
  expect_truncated(value(*model, "ff_out"), 1 / root(d), "head");
  for (int64_t l = 0; l < kBlocks; ++l) {
    const double depth = static_cast<double>(l + 1);
    expect_truncated(value(*model, in_block(l, "att_proj")), 1 / root(d), in_block(l, "att_proj"));
    expect_truncated(value(*model, in_block(l, "ff_proj")), 1 / root(d), in_block(l, "ff_proj"));
    expect_truncated(value(*model, in_block(l, "attn_out")), 1 / root(2 * d * depth), in_block(l, "attn_out"));
    expect_truncated(value(*model, in_block(l, "ff_out")), 1 / root(2 * ff * depth), in_block(l, "ff_out"));
  }
}

TEST(LmInit, Normal) {
  const auto model = started(config("normal"));
  for (const Parameter& p : model->params().all())
    if (p.value.dim() == 2) expect_truncated(p.value, 0.03, p.name);
}

TEST(LmInit, FullMegatron) {
  const auto model = started(config("full_megatron"));
  expect_truncated(value(*model, "wte"), 0.03, "wte");
  expect_truncated(value(*model, "ff_out"), 1 / root(kWidth), "head");
  for (int64_t l = 0; l < kBlocks; ++l) {
    for (const char* name : {"att_proj", "ff_proj"})
      expect_truncated(value(*model, in_block(l, name)), 0.03, in_block(l, name));
    for (const char* name : {"attn_out", "ff_out"})
      expect_truncated(value(*model, in_block(l, name)), 0.03 / root(2 * kBlocks), in_block(l, name));
  }
}

TEST(LmInit, GainsAreOneAndBiasesZero) {
  ModelConfig c = config("mitchell", "siamese_hybrid");
  c.bias = c.norm_bias = true;
  c.norm = "layer";
  const auto model = started(c);
  int64_t seen = 0;
  for (const Parameter& p : model->params().all()) {
    if (p.value.dim() != 1) continue;
    EXPECT_TRUE((p.value == (p.name.ends_with(".bias") ? 0.0 : 1.0)).all().item<bool>()) << p.name;
    ++seen;
  }
  EXPECT_GT(seen, 40);
}

TEST(LmInit, CutoffIsAnOption) {
  ModelConfig c = config("normal");
  c.init.cutoff = 1.0;
  const auto model = started(c);
  const double largest = value(*model, "wte").abs().max().item<double>() / 0.03;
  EXPECT_LE(largest, 1.0 + 1e-6);
  EXPECT_GT(largest, 0.99);
}

// deepnorm: value, output and feed-forward weights times (8L)^(-1/4), instead of the recipe's depth factor.
TEST(LmInit, DeepnormHasItsOwnScale) {
  for (const char* kind : {"mitchell", "normal", "full_megatron"}) {
    const auto model = started(config(kind, "deepnorm"));
    const double gain = std::pow(8.0 * kBlocks, -0.25), flat = 0.03;
    const bool fan_in = std::string_view(kind) == "mitchell";
    const double d = fan_in ? 1 / root(kWidth) : flat, ff = fan_in ? 1 / root(kHidden / 2) : flat;
    for (int64_t l = 0; l < kBlocks; ++l) {
      const at::Tensor qkv = value(*model, in_block(l, "att_proj"));  // 4 query, 2 key, 2 value heads of 16
      expect_truncated(qkv.slice(0, 0, 96), d, "query, key");
      expect_truncated(qkv.slice(0, 96), d * gain, "value");
      expect_truncated(value(*model, in_block(l, "attn_out")), d * gain, "attn_out");
      expect_truncated(value(*model, in_block(l, "ff_proj")), d * gain, "ff_proj");
      expect_truncated(value(*model, in_block(l, "ff_out")), ff * gain, "ff_out");
    }
  }
}

TEST(LmInit, LnScalingHasNoDepthFactorAndSpanItsOwn) {
  const auto scaling = started(config("mitchell", "ln_scaling")), span = started(config("mitchell", "span"));
  for (int64_t l = 0; l < kBlocks; ++l) {
    expect_truncated(value(*scaling, in_block(l, "attn_out")), 1 / root(kWidth), "ln_scaling");
    expect_truncated(value(*scaling, in_block(l, "ff_out")), 1 / root(kHidden / 2), "ln_scaling");
    expect_truncated(value(*span, in_block(l, "attn_out")), 1 / root(kWidth) / root(2 * kBlocks), "span");
    expect_truncated(value(*span, in_block(l, "ff_out")), 1 / root(kHidden / 2) / root(2 * kBlocks), "span");
  }
}

// A comparison of schemes is one of schemes only when all else starts the same.
TEST(LmInit, SchemesStartWithTheSameProjections) {
  const auto pre = started(config("mitchell"));
  for (const std::string& scheme : scheme_names()) {
    const auto other = started(config("mitchell", scheme));
    for (const Parameter& p : pre->params().all()) {
      if (p.value.dim() != 2) continue;
      const at::Tensor x = other->params().at(p.name).value;
      // deepnorm, ln_scaling and span scale some matrices; what is scaled is the same draw.
      const double ratio = (x.flatten()[0] / p.value.flatten()[0]).item<double>();
      const bool same = scheme == "deepnorm" || scheme == "ln_scaling" || scheme == "span"
                            ? p.name.ends_with("att_proj.weight") || relative_error(x, p.value * ratio) < 1e-6
                            : at::equal(x, p.value);
      EXPECT_TRUE(same) << scheme << " " << p.name;
    }
  }
}

TEST(LmInit, SeedsAndNamesTellDrawsApart) {
  const auto a = started(config("normal"), 1), again = started(config("normal"), 1), b = started(config("normal"), 2);
  for (const Parameter& p : a->params().all()) {
    EXPECT_TRUE(at::equal(p.value, again->params().at(p.name).value)) << p.name;
    EXPECT_EQ(at::equal(p.value, b->params().at(p.name).value), p.value.dim() == 1) << p.name;
  }
  EXPECT_FALSE(at::equal(value(*a, in_block(0, "att_proj")), value(*a, in_block(1, "att_proj"))));
}

// bf16 weights are the rounded fp32 ones: precision is no other start.
TEST(LmInit, Bf16IsTheRoundedStart) {
  const auto exact = started(config("mitchell"));
  ModelOptions options;
  options.dtype = options.stream_dtype = at::kBFloat16;
  LanguageModel rough(config("mitchell"), options);
  rough.params().initialise(1);
  for (const Parameter& p : exact->params().all())
    EXPECT_TRUE(at::equal(rough.params().at(p.name).value, p.value.to(at::kBFloat16))) << p.name;
}

}  // namespace
}  // namespace siamese
