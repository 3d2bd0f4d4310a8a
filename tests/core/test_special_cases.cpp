// Schemes that become one another at special parameters, to 1e-12 in fp64.
#include "scheme_cases.h"

namespace siamese {
namespace {

constexpr int64_t kBlocks = 3;

ModelConfig config_of(const std::string& scheme) {
  ModelConfig c = scheme_config(scheme);
  c.n_layers = kBlocks;
  c.input_norm = c.depth_scale = false;
  return c;
}

void set(const LanguageModel& model, const std::string& name, double value) {
  const at::NoGradGuard no_grad;
  at::Tensor(model.params().at("transformer." + name).value).fill_(value);
}

std::string in_block(int64_t l, const std::string& name) { return fmt::format("blocks.{}.{}", l, name); }

/// All gains of the norms on one stream, `suffix` "norm" or "y_norm"; `end` its norm at the end of the stack.
void set_gains(const LanguageModel& model, const std::string& suffix, const std::string& end, double value) {
  for (int64_t l = 0; l < kBlocks; ++l)
    for (const char* part : {"attn_", "ff_"}) {
      const std::string name = in_block(l, part + suffix + ".weight");
      if (model.params().has("transformer." + name)) set(model, name, value);
    }
  set(model, end + ".weight", value);
}

/// The siamese name of a one-stream model's parameter: its norms are those of one stream, `suffix` and `end` as above.
std::string siamese_name(std::string name, const std::string& suffix, const std::string& end) {
  for (const std::string part : {"attn_", "ff_"})
    if (name.ends_with(part + "norm.weight"))
      name.replace(name.rfind(part), std::string::npos, part + suffix + ".weight");
  return name == "transformer.ln_f.weight" ? "transformer." + end + ".weight" : name;
}

Norm norm_of(const LanguageModel& model, const std::string& name) {
  return {true, NormKind::rms, model.config().norm_eps, model.params().at("transformer." + name + ".weight").value, {}};
}

/// `siamese` against N_final of a model with one stream, which takes its parameters: values and the gradients of all
/// parameters that both have.
void expect_same(const LanguageModel& siamese, const LanguageModel& single, const std::string& suffix,
                 const std::string& end, const at::Tensor& ids) {
  {
    const at::NoGradGuard no_grad;
    for (const Parameter& p : single.params().all())
      at::Tensor(p.value).copy_(siamese.params().at(siamese_name(p.name, suffix, end)).value);
  }
  const at::Tensor got = siamese.hidden(ids, {});
  const at::Tensor want = norm_plain(single.hidden(ids, {}), norm_of(siamese, "ln_final_f"), at::kDouble);
  EXPECT_LE(relative_error(got, want), 1e-12);
  torch::autograd::variable_list a, b;
  for (const Parameter& p : single.params().all()) {
    a.push_back(siamese.params().at(siamese_name(p.name, suffix, end)).value);
    b.push_back(p.value);
  }
  const at::Tensor weight = random_normal(got.sizes(), 1);
  a = torch::autograd::grad({got}, a, {weight});
  b = torch::autograd::grad({want}, b, {weight});
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_error(a[i], b[i]), 1e-11) << single.params().all()[i].name;
}

class SpecialCases : public testing::TestWithParam<bool> {
 protected:
  ModelConfig config(const std::string& scheme) const {
    ModelConfig c = config_of(scheme);
    c.fused = GetParam();
    return c;
  }
  const OneThread one_thread_;
  const at::Tensor ids_ = random_ids(2, 7, 11);
};
INSTANTIATE_TEST_SUITE_P(Path, SpecialCases, testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "fused" : "plain"); });

TEST_P(SpecialCases, SiameseWithoutXIsPre) {
  for (const bool depth_scale : {false, true}) {  // what is written to x does not matter
    ModelConfig c = config("siamese");
    c.depth_scale = depth_scale;
    const auto siamese = random_model(c), pre = random_model(config("pre"));
    set_gains(*siamese, "norm", "ln_f", 0.0);
    expect_same(*siamese, *pre, "y_norm", "ln_y_f", ids_);
  }
}

TEST_P(SpecialCases, SiameseWithoutYIsPost) {
  const auto siamese = random_model(config("siamese")), post = random_model(config("post"));
  set_gains(*siamese, "y_norm", "ln_y_f", 0.0);
  expect_same(*siamese, *post, "norm", "ln_f", ids_);
}

/// No scheme is Pre-Norm with normed q, k and v: built here from the parts.
at::Tensor pre_with_qkv_norms(const LanguageModel& model, const at::Tensor& ids) {
  const ModelConfig& c = model.config();
  const int64_t head = c.d_model / c.n_heads;
  const Rope rope(head, c.rope_theta);
  auto weight = [&](const std::string& name) { return model.params().at("transformer." + name + ".weight").value; };
  at::Tensor y = at::embedding(weight("wte"), ids);
  for (int64_t l = 0; l < kBlocks; ++l) {
    auto in = [&](const char* name) { return in_block(l, name); };
    Attention a;
    a.heads = c.n_heads, a.kv_heads = c.n_kv_heads, a.head_dim = head, a.fused = false, a.rope = &rope;
    a.qkv.weight = weight(in("att_proj")), a.out.weight = weight(in("attn_out"));
    a.q_norm = norm_of(model, in("q_norm")), a.k_norm = norm_of(model, in("k_norm")),
    a.v_norm = norm_of(model, in("v_norm"));
    FeedForward f;
    f.in.weight = weight(in("ff_proj")), f.out.weight = weight(in("ff_out"));
    y = y + a(a.qkv(norm_plain(y, norm_of(model, in("attn_y_norm")), at::kDouble)), {});
    y = y + f(f.in(norm_plain(y, norm_of(model, in("ff_y_norm")), at::kDouble)));
  }
  y = norm_plain(y, norm_of(model, "ln_y_f"), at::kDouble);
  return norm_plain(y, norm_of(model, "ln_final_f"), at::kDouble);
}

TEST_P(SpecialCases, SiameseHybridWithoutXIsPreWithQkvNorms) {
  const auto hybrid = random_model(config("siamese_hybrid"));
  set_gains(*hybrid, "norm", "ln_f", 0.0);
  for (int64_t l = 0; l < kBlocks; ++l) set(*hybrid, in_block(l, "c1"), 0.0);
  EXPECT_LE(relative_error(hybrid->hidden(ids_, {}), pre_with_qkv_norms(*hybrid, ids_)), 1e-12);
}

/// With c1 at its start the x stream is HybridNorm.
TEST_P(SpecialCases, SiameseHybridWithoutYIsHybrid) {
  const auto siamese = random_model(config("siamese_hybrid")), hybrid = random_model(config("hybrid"));
  set_gains(*siamese, "y_norm", "ln_y_f", 0.0);
  for (int64_t l = 0; l < kBlocks; ++l) set(*siamese, in_block(l, "c1"), 1.0);
  expect_same(*siamese, *hybrid, "norm", "ln_f", ids_);
}

/// Hyper-connections at their start hold n copies of pre's stream, so that N(Σ H_i) = N(n·x): epsilon counts n² less.
TEST_P(SpecialCases, HyperConnectionsStartAsPre) {
  for (const char* scheme : {"hc_static", "hc_dynamic"})
    for (const int64_t n : {1, 2, 4}) {
      ModelConfig c = config(scheme);
      c.streams = n;
      SchemeRun hyper(c), pre(config("pre"), true, /*final_norm=*/false);
      const at::NoGradGuard no_grad;
      for (const Parameter& p : pre.params.all()) at::Tensor(p.value).copy_(hyper.params.at(p.name).value);
      Params start(at::kDouble, at::kCPU);  // the maps alone go back to their start
      const auto unused = make_scheme({c, start, true, true, at::kDouble});
      start.initialise(1);
      for (const Parameter& p : hyper.params.all())
        if (p.kind == ParamKind::other) at::Tensor(p.value).copy_(start.at(p.name).value);
      pre.embedding = hyper.embedding;
      pre.w = hyper.w;
      const Norm end{true,
                     NormKind::rms,
                     c.norm_eps / static_cast<double>(n * n),
                     hyper.params.at("transformer.ln_f.weight").value,
                     {}};
      EXPECT_LE(relative_error(hyper.output(), norm_plain(pre.output(), end, at::kDouble)), 1e-12)
          << scheme << " " << n;
    }
}

}  // namespace
}  // namespace siamese
