// Generation: the cache changes nothing, random choices follow the distribution and the seed.
#include <cmath>

#include "models/generate.h"
#include "tiny.h"

namespace siamese {
namespace {

constexpr int64_t kLength = 32;

ModelConfig config(const std::string& scheme) {
  ModelConfig c = tiny_config(scheme);
  c.d_model = 32;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.mlp_hidden_size = 64;
  c.vocab_size = 256;
  return c;
}

std::unique_ptr<LanguageModel> trained(const ModelConfig& c, const char* source = "sentences") {
  DataConfig data;
  data.source = source;
  auto model = std::make_unique<LanguageModel>(c, ModelOptions{});
  model->params().initialise(1);
  train_briefly(*model, *make_source(data, kLength, 1), kLength, 20);
  return model;
}

struct Text {
  std::vector<int64_t> ids;
  at::Tensor logits;  // [tokens, vocab]
};

Text write(const LanguageModel& model, const SamplingOptions& options, const std::string& prompt = "Mira ") {
  Text text;
  std::vector<at::Tensor> rows;
  text.ids = generate(model, encode_bytes(prompt), options, [&](int64_t, const at::Tensor& logits) {
    rows.push_back(logits.clone());
    return true;
  });
  text.logits = at::stack(rows);
  return text;
}

SamplingOptions greedy(int64_t tokens, bool cache = true) {
  SamplingOptions o;
  o.tokens = tokens;
  o.temperature = 0;
  o.cache = cache;
  return o;
}

class GenerateScheme : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, GenerateScheme, testing::ValuesIn(scheme_names()), [](const auto& p) { return p.param; });

TEST_P(GenerateScheme, CacheChangesNothing) {
  const auto model = trained(config(GetParam()), GetParam() < "m" ? "sentences" : "arithmetic");
  const Text with = write(*model, greedy(200, true)), without = write(*model, greedy(200, false));
  ASSERT_EQ(with.ids.size(), 200u);
  EXPECT_EQ(with.ids, without.ids);
  EXPECT_LE((with.logits - without.logits).abs().max().item<double>(), 1e-4);
}

// A prompt longer than one token goes through the cache in one piece; feeding it in two must not matter either.
TEST(Generate, CacheTakesPieces) {
  const auto model = tiny_model(config("siamese_hybrid"), at::kFloat);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(2, 12, 256), whole = model->hidden(ids, {});
  KvCache cache = model->make_cache(2, 12);
  Forward forward;
  forward.cache = &cache;
  std::vector<at::Tensor> parts;
  for (const int64_t size : {5, 1, 4, 2}) {
    parts.push_back(model->hidden(ids.slice(1, cache.length, cache.length + size).contiguous(), forward));
    cache.length += size;
  }
  EXPECT_LE(relative_error(at::cat(parts, 1), whole), 1e-5);
}

class GenerateText : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = trained(config("siamese_hybrid")); }
  static void TearDownTestSuite() { model_.reset(); }
  static std::unique_ptr<LanguageModel> model_;
};
std::unique_ptr<LanguageModel> GenerateText::model_;

TEST_F(GenerateText, SeedDecides) {
  SamplingOptions o;
  o.tokens = 60;
  const std::vector<int64_t> first = write(*model_, o).ids;
  EXPECT_EQ(write(*model_, o).ids, first);
  o.cache = false;
  EXPECT_EQ(write(*model_, o).ids, first);
  o.seed = 2;
  EXPECT_NE(write(*model_, o).ids, first);
}

TEST_F(GenerateText, NarrowChoicesAreGreedy) {
  const std::vector<int64_t> best = write(*model_, greedy(60)).ids;
  SamplingOptions k, p, cold;
  k.tokens = p.tokens = cold.tokens = 60;
  k.top_k = 1;
  p.top_p = 1e-9;
  cold.temperature = 1e-6;
  EXPECT_EQ(write(*model_, k).ids, best);
  EXPECT_EQ(write(*model_, p).ids, best);
  EXPECT_EQ(write(*model_, cold).ids, best);
}

TEST_F(GenerateText, StopsWhenTold) {
  const std::vector<int64_t> best = write(*model_, greedy(30)).ids;
  SamplingOptions o = greedy(30);
  o.stop = best[7];
  const auto first = std::find(best.begin(), best.end(), o.stop);  // the stop itself is not part of the text
  EXPECT_EQ(generate(*model_, encode_bytes("Mira "), o), std::vector<int64_t>(best.begin(), first));
  int64_t seen = 0;
  const auto some = generate(*model_, encode_bytes("Mira "), greedy(30), [&](int64_t, auto&) { return ++seen < 4; });
  EXPECT_EQ(some, std::vector<int64_t>(best.begin(), best.begin() + 4));
  EXPECT_TRUE(generate(*model_, encode_bytes("Mira "), greedy(0)).empty());
}

TEST_F(GenerateText, PromptMustBeUsable) {
  EXPECT_NE(error_of([&] { generate(*model_, {}, greedy(3)); }).find("empty"), std::string::npos);
  EXPECT_NE(error_of([&] { generate(*model_, {65, 256}, greedy(3)); }).find("256"), std::string::npos);
  EXPECT_NE(error_of([&] { generate(*model_, {-1}, greedy(3)); }).find("-1"), std::string::npos);
}

/// Counts of choose() over positions 0 … n-1.
std::vector<double> counts(const at::Tensor& logits, const SamplingOptions& o, int64_t n) {
  std::vector<double> c(static_cast<size_t>(logits.size(0)));
  for (int64_t i = 0; i < n; ++i) ++c[static_cast<size_t>(choose(logits, o, i))];
  return c;
}

/// Chi-square of counts against probabilities; what must not occur must not.
double chi_square(const std::vector<double>& c, const at::Tensor& p, double n) {
  double sum = 0;
  for (size_t i = 0; i < c.size(); ++i) {
    const double want = n * p[static_cast<int64_t>(i)].item<double>();
    if (want == 0) {
      EXPECT_EQ(c[i], 0) << i;
    } else {
      sum += (c[i] - want) * (c[i] - want) / want;
    }
  }
  return sum;
}

const at::Tensor kLogits = at::tensor({0.5, 2.0, -1.0, 1.0, 0.0, 1.5, -2.0, 0.9}, at::kDouble);

at::Tensor only(const at::Tensor& p, std::initializer_list<int64_t> ids) {
  at::Tensor kept = at::zeros_like(p);
  for (const int64_t id : ids) kept[id].copy_(p[id]);
  return kept / kept.sum();
}

TEST(Choose, FollowsTheDistribution) {
  constexpr int64_t kDraws = 10000;
  const at::Tensor p = at::softmax(kLogits, 0);
  SamplingOptions o;
  // 7 degrees of freedom: above 24.3 in one of a thousand cases, and these draws never change.
  EXPECT_LT(chi_square(counts(kLogits, o, kDraws), p, kDraws), 24.3);
  EXPECT_LT(chi_square(counts(kLogits.to(at::kBFloat16), o, kDraws), p, kDraws), 24.3);
  o.temperature = 0.5;
  EXPECT_LT(chi_square(counts(kLogits, o, kDraws), at::softmax(kLogits / 0.5, 0), kDraws), 24.3);
  o.temperature = 3;
  EXPECT_LT(chi_square(counts(kLogits, o, kDraws), at::softmax(kLogits / 3, 0), kDraws), 24.3);
  o.temperature = 1;
  o.top_k = 3;
  EXPECT_LT(chi_square(counts(kLogits, o, kDraws), only(p, {1, 5, 3}), kDraws), 13.8);
  // The three most likely hold 0.71 of the mass, the four most likely 0.85.
  o.top_k = 0;
  o.top_p = 0.8;
  EXPECT_LT(chi_square(counts(kLogits, o, kDraws), only(p, {1, 5, 3, 7}), kDraws), 16.3);
}

TEST(Choose, EdgesOfTheOptions) {
  SamplingOptions o;
  o.top_k = 1000;  // more than there are
  EXPECT_LT(choose(kLogits, o, 3), 8);
  o.top_p = 0;
  EXPECT_EQ(choose(kLogits, o, 3), 1);
  o.temperature = 0;
  EXPECT_EQ(choose(kLogits, o, 3), 1);
  EXPECT_EQ(choose(at::ones({1}), SamplingOptions{}, 0), 0);
}

TEST(Choose, LogitsThatAreNotFiniteAreAnError) {
  at::Tensor bad = kLogits.clone();
  bad[2].fill_(NAN);
  for (const double temperature : {0.0, 1.0}) {
    SamplingOptions o;
    o.temperature = temperature;
    EXPECT_NE(error_of([&] { choose(bad, o, 42); }).find("42"), std::string::npos);
  }
}

}  // namespace
}  // namespace siamese
