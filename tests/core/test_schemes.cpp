// What every residual scheme promises: the table, fused equals plain, modulation, gates and DropPath, streams as plain
// values, norms in the attention, initial scales.
#include <cmath>

#include "scheme_cases.h"

namespace siamese {
namespace {

TEST(SchemeTable, NamesAreTheRecipes) {
  std::vector<std::string> names;
  for (const SchemeInfo& info : scheme_table()) names.emplace_back(info.name);
  EXPECT_EQ(names, scheme_names());
  EXPECT_EQ(names.size(), 18U);
}

TEST(SchemeTable, AnUnknownNameGetsTheNearest) {
  Params params(at::kFloat, at::kCPU);
  ModelConfig c = scheme_config("siamese");
  c.scheme = "siamse";
  EXPECT_EQ(error_of([&] { make_scheme({c, params}); }), "model.scheme 'siamse' is unknown; did you mean 'siamese'?");
}

class EveryScheme : public testing::TestWithParam<SchemeCase> {
  const OneThread one_thread_;
};
INSTANTIATE_TEST_SUITE_P(All, EveryScheme, testing::ValuesIn(scheme_cases()), scheme_case_name);

/// max|a-b| relative to the larger of max|b| and `floor`.
double difference(const at::Tensor& a, const at::Tensor& b, double floor = 0.0) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return (x - y).abs().max().item<double>() / std::max(y.abs().max().item<double>(), std::max(floor, 1e-30));
}

TEST_P(EveryScheme, FusedEqualsPlain) {
  const at::Tensor ids = random_ids(3, 8, 11);
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-11}, {at::kFloat, 1e-5}})  // gradients: five times that
    for (const char* norm : {"rms", "layer"}) {
      ModelConfig c = GetParam().config;
      c.norm = norm;
      c.norm_bias = c.norm == "layer";
      const auto fused = random_model(c, type);
      c.fused = false;
      const auto plain = random_model(c, type);
      EXPECT_LE(difference(fused->logits(fused->hidden(ids, {})), plain->logits(plain->hidden(ids, {}))), tolerance);
      const auto a = gradients(fused->loss(ids, {}).total, fused->params());
      const auto b = gradients(plain->loss(ids, {}).total, plain->params());
      double largest = 0;
      for (const at::Tensor& g : b) largest = std::max(largest, g.abs().max().item<double>());
      for (size_t i = 0; i < a.size(); ++i)
        EXPECT_LE(difference(a[i], b[i], 0.05 * largest), 5 * tolerance) << plain->params().all()[i].name;
    }
}

TEST_P(EveryScheme, FusedEqualsPlainWithGatesAndDropPath) {
  for (const bool dit : {false, true}) {
    ModelConfig c = GetParam().config;
    SchemeRun fused(c, !dit, !dit);
    c.fused = false;
    SchemeRun plain(c, !dit, !dit);
    fused.modulate_all(), plain.modulate_all();
    EXPECT_LE(difference(fused.output(), plain.output()), 1e-12);
  }
}

/// Ones and zeros where a factor or a shift may be absent change nothing.
TEST_P(EveryScheme, NeutralModulationEqualsNone) {
  SchemeRun run(GetParam().config);
  const at::Tensor plain = run.output();
  const at::Tensor ones = at::ones({SchemeRun::kBatch, run.config.d_model}, at::kDouble), zeros = at::zeros_like(ones);
  for (size_t k = 0; k < run.w.size(); ++k) {
    run.modulations[k] = {zeros, zeros};
    run.gates[k] = ones;
    run.row_scales[k] = at::ones({SchemeRun::kBatch}, at::kDouble);
  }
  EXPECT_LE(difference(run.output(), plain), 1e-14);
}

TEST_P(EveryScheme, ModulationActsOnWhatIsRead) {
  SchemeRun run(GetParam().config);
  for (int k = 0; k < run.sites(); ++k) {
    const Streams s = run.until(k);
    const Modulation m{random_normal({SchemeRun::kBatch, run.config.d_model}, 1),
                       random_normal({SchemeRun::kBatch, run.config.d_model}, 2)};
    const at::Tensor z = run.scheme->read(s, {k}).input, modulated = run.scheme->read(s, {k}, m).input;
    EXPECT_LE(difference(modulated, z * (1 + m.scale.unsqueeze(1)) + m.shift.unsqueeze(1)), 1e-14) << k;
  }
}

/// The gate multiplies r before any output norm or write.
TEST_P(EveryScheme, GateMultipliesTheUpdate) {
  SchemeRun run(GetParam().config);
  for (int k = 0; k < run.sites(); ++k) {
    const Read read = run.scheme->read(run.until(k), {k});
    const at::Tensor r = random_normal(run.embedding.sizes(), 3), gate = random_normal({3, run.config.d_model}, 4);
    const Streams a = run.scheme->write(read.streams, {r, gate, {}}, {k});
    const Streams b = run.scheme->write(read.streams, {r * gate.unsqueeze(1), {}, {}}, {k});
    EXPECT_LE(difference(run.scheme->finish(a), run.scheme->finish(b)), 1e-14) << k;
  }
}

/// Whether a write is a sum and nothing else; elsewhere a norm after the sum still acts when r is 0.
bool write_is_sum(const ModelConfig& c, const Site& site) {
  if (c.scheme == "deepnorm" || c.scheme == "keel" || c.scheme == "resi_dual") return false;
  if (c.scheme == "span") return site.attention();
  if (c.scheme == "mix_ln") return site.block() >= static_cast<int>(c.mix_fraction * static_cast<double>(c.n_layers));
  return true;
}

TEST_P(EveryScheme, DroppedSamplesDoNotSeeTheUpdate) {
  SchemeRun run(GetParam().config);
  const at::Tensor row_scale = at::tensor({0.0, 1.0, 0.5}, at::kDouble);
  for (int k = 0; k < run.sites(); ++k) {
    const Read read = run.scheme->read(run.until(k), {k});
    auto next = [&](const Streams& s) {
      return k + 1 < run.sites() ? run.scheme->read(s, {k + 1}).input : run.scheme->finish(s);
    };
    auto after = [&](int64_t number) {
      return next(run.scheme->write(read.streams, {random_normal(run.embedding.sizes(), number), {}, row_scale}, {k}));
    };
    const at::Tensor a = after(3), b = after(4);
    EXPECT_TRUE(at::equal(a[0], b[0])) << k;
    EXPECT_GT(difference(a[1], b[1]), 1e-3) << k;
    EXPECT_GT(difference(a[2], b[2]), 1e-3) << k;
    if (write_is_sum(run.config, {k})) {
      EXPECT_LE(difference(a[0], next(read.streams)[0]), 1e-14) << k;
    }
  }
}

/// An update that is handed in while another is pending does not replace it.
TEST_P(EveryScheme, PendingUpdatesAreNotLost) {
  SchemeRun run(GetParam().config);
  if (run.config.streams > 0) return;  // hyper-connections need the read between two writes
  run.modulate_all();
  for (int k = 0; k < run.sites(); ++k) {
    const Streams s = run.until(k + 1);
    ASSERT_TRUE(s.pending.r.defined());
    EXPECT_EQ(s.site.k, k);
    if (!write_is_sum(run.config, {k})) continue;
    const Streams twice = run.scheme->write(s, {at::zeros_like(s.pending.r), {}, {}}, {k});
    EXPECT_LE(difference(run.scheme->finish(twice), run.scheme->finish(s)), 1e-14) << k;
  }
}

TEST_P(EveryScheme, StreamsFlattenAndBack) {
  SchemeRun run(GetParam().config);
  for (const bool modulated : {false, true}) {
    if (modulated) run.modulate_all();
    for (int k = 0; k <= run.sites(); ++k) {
      const Streams s = run.until(k);
      const std::vector<at::Tensor> flat = s.flatten();
      EXPECT_EQ(flat.size(), s.s.size() + (k == 0 ? 0 : modulated ? 3 : 1));
      const Streams skeleton = s.skeleton();
      for (const at::Tensor& t : skeleton.flatten()) EXPECT_TRUE(t.numel() == 0 && !t.requires_grad());
      const Streams back = Streams::unflatten(skeleton, flat);
      EXPECT_EQ(back.site.k, s.site.k);
      const std::vector<at::Tensor> again = back.flatten();
      ASSERT_EQ(again.size(), flat.size());
      for (size_t i = 0; i < flat.size(); ++i) EXPECT_TRUE(again[i].is_same(flat[i]));
      EXPECT_TRUE(at::equal(run.scheme->finish(back), run.scheme->finish(s)));
    }
  }
}

/// A read does not change what it reads from: streams are plain values.
TEST_P(EveryScheme, ReadsHaveNoSideEffects) {
  SchemeRun run(GetParam().config);
  const Streams s = run.until(2);
  std::vector<at::Tensor> before;
  for (const at::Tensor& t : s.flatten()) before.push_back(t.detach().clone());
  const at::Tensor first = run.scheme->read(s, {2}).input, second = run.scheme->read(s, {2}).input;
  EXPECT_TRUE(at::equal(first, second));
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], s.flatten()[i]));
}

TEST_P(EveryScheme, AttentionNormAndInitialScale) {
  SchemeRun run(GetParam().config);
  const std::string& name = run.config.scheme;
  const bool qkv = name == "hybrid" || name == "hybrid_star" || name == "siamese_hybrid";
  constexpr int kBlocks = 5;
  for (const Role role : {Role::query_key, Role::value, Role::output, Role::ff_in, Role::ff_out}) {
    std::optional<double> want;
    if (name == "deepnorm") want = role == Role::query_key ? 1.0 : std::pow(8.0 * kBlocks, -0.25);
    if (name == "span") want = role == Role::output || role == Role::ff_out ? 1 / std::sqrt(2.0 * kBlocks) : 1.0;
    if (name == "ln_scaling") want = 1.0;
    for (const int block : {0, 4}) {
      EXPECT_EQ(run.scheme->init_scale(role, block, kBlocks), want);
      EXPECT_EQ(run.scheme->attention_norm({2 * block}), qkv ? AttentionNorm::qkv : AttentionNorm::none);
    }
  }
}

/// Draws depend on a parameter's name, so the ratio of two schemes' starts is exact to fp32: value rows of the fused
/// QKV (grouped queries: 2 of 8 heads), the others, the outputs.
TEST(InitialScale, ReachesTheParameters) {
  auto start = [](const std::string& scheme) {
    ModelConfig c = scheme_config(scheme);
    c.d_model = 32, c.n_layers = 3, c.n_heads = 8, c.n_kv_heads = 2;
    auto model = std::make_unique<LanguageModel>(c, ModelOptions{});
    model->params().initialise(3);
    return model;
  };
  auto ratio = [](const LanguageModel& a, const LanguageModel& b, const std::string& name, int64_t from, int64_t to) {
    const at::NoGradGuard no_grad;
    const at::Tensor q = a.params().at(name).value.slice(0, from, to) / b.params().at(name).value.slice(0, from, to);
    const double mean = q.to(at::kDouble).mean().item<double>();
    EXPECT_LE((q - mean).abs().max().item<double>(), 1e-6 * mean) << name;
    return mean;
  };
  const auto pre = start("pre"), deep = start("deepnorm"), span = start("span"), scaling = start("ln_scaling");
  for (int l = 0; l < 3; ++l) {
    auto name = [&](const char* part) { return fmt::format("transformer.blocks.{}.{}.weight", l, part); };
    const double depth = 1 / std::sqrt(2.0 * (l + 1)), small = std::pow(24.0, -0.25);  // mitchell's own; (8L)^(-1/4)
    EXPECT_NEAR(ratio(*deep, *pre, name("att_proj"), 0, 40), 1.0, 1e-6);
    EXPECT_NEAR(ratio(*deep, *pre, name("att_proj"), 40, 48), small, 1e-6);
    EXPECT_NEAR(ratio(*deep, *pre, name("attn_out"), 0, 32), small / depth, 1e-6);
    EXPECT_NEAR(ratio(*deep, *pre, name("ff_proj"), 0, 16), small, 1e-6);
    EXPECT_NEAR(ratio(*deep, *pre, name("ff_out"), 0, 32), small / depth, 1e-6);
    EXPECT_NEAR(ratio(*span, *pre, name("att_proj"), 0, 48), 1.0, 1e-6);
    EXPECT_NEAR(ratio(*span, *pre, name("attn_out"), 0, 32), 1 / std::sqrt(6.0) / depth, 1e-6);
    EXPECT_NEAR(ratio(*scaling, *pre, name("ff_out"), 0, 32), 1 / depth, 1e-6);
  }
}

}  // namespace
}  // namespace siamese
