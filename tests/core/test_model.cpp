// What must hold for every scheme in the language model: causality, documents, micro-batches, bf16.
#include "tiny.h"

namespace siamese {
namespace {

class LmScheme : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, LmScheme, testing::ValuesIn(scheme_names()), [](const auto& p) { return p.param; });

at::Tensor all_logits(const LanguageModel& model, const at::Tensor& ids, const Forward& forward = {}) {
  const at::NoGradGuard no_grad;
  return model.logits(model.hidden(ids, forward));
}

TEST_P(LmScheme, LaterTokensDoNotMatter) {
  const auto model = tiny_model(tiny_config(GetParam()));
  const at::Tensor ids = random_ids(2, 10, 11);
  const at::Tensor before = all_logits(*model, ids);
  for (const int64_t t : {0, 4, 9}) {
    at::Tensor changed = ids.clone();
    changed.select(1, t).copy_((ids.select(1, t) + 1) % 11);
    const at::Tensor after = all_logits(*model, changed);
    const at::Tensor a = after.slice(1, 0, t), b = before.slice(1, 0, t);
    EXPECT_TRUE(t == 0 || relative_error(a, b) <= 1e-13) << t;
    EXPECT_GT(relative_error(after.select(1, t), before.select(1, t)), 1e-3) << t;
    EXPECT_GT(relative_error(after.select(1, 9), before.select(1, 9)), 1e-8) << t;
  }
}

// Rotary positions are relative, so a document does not know where in its row it stands.
TEST_P(LmScheme, DocumentsDoNotSeeEachOther) {
  const auto model = tiny_model(tiny_config(GetParam()));
  constexpr int64_t kEos = 3;
  at::Tensor ids = random_ids(2, 13, 11, 1);
  ids.masked_fill_(ids == kEos, 4);
  ids.select(1, 4).fill_(kEos);
  Forward masked;
  masked.documents = document_numbers(ids, kEos);
  const at::Tensor whole = all_logits(*model, ids, masked);
  EXPECT_LE(relative_error(whole.slice(1, 0, 5), all_logits(*model, ids.slice(1, 0, 5).contiguous())), 1e-12);
  EXPECT_LE(relative_error(whole.slice(1, 5), all_logits(*model, ids.slice(1, 5).contiguous())), 1e-12);
  EXPECT_GT(relative_error(whole.slice(1, 5), all_logits(*model, ids).slice(1, 5)), 1e-6);
}

TEST(LmDocuments, AnEndBelongsToItsOwnDocument) {
  const at::Tensor ids = at::tensor({5, 0, 6, 7, 0, 0, 8, 0, 5, 5, 5, 5, 5, 5}, at::kLong).view({2, 7});
  const at::Tensor want = at::tensor({0, 0, 1, 1, 1, 2, 3, 0, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 7});
  EXPECT_TRUE(at::equal(document_numbers(ids, 0), want));
}

// What a row draws depends on its number in the global batch, so the cut into micro-batches changes nothing.
TEST_P(LmScheme, MicroBatchesAddUpToTheBatch) {
  const auto model = tiny_model(dropout_config(GetParam()));
  const at::Tensor ids = random_ids(4, 9, 11, 2);
  auto gradients_of = [&](int64_t row, int64_t count) {
    Forward f;
    f.training = true, f.seed = 3, f.step = 17, f.row = row;
    return gradients(model->loss(ids.slice(0, row, row + count), f, 0.01).total, model->params());
  };
  const std::vector<at::Tensor> whole = gradients_of(0, 4), first = gradients_of(0, 2), second = gradients_of(2, 2);
  double largest = 0;
  for (const at::Tensor& g : whole) largest = std::max(largest, g.abs().max().item<double>());
  ASSERT_GT(largest, 0);
  bool all_zero = true;
  for (size_t i = 0; i < whole.size(); ++i) {
    const double error = (0.5 * (first[i] + second[i]) - whole[i]).abs().max().item<double>();
    EXPECT_LE(error / largest, 1e-13) << model->params().all()[i].name;
    all_zero = all_zero && at::equal(first[i], second[i]);
  }
  EXPECT_FALSE(all_zero);
}

TEST(LmDropPath, RowsAreDroppedAsAWhole) {
  ModelConfig c = tiny_config("pre");
  c.n_layers = 1;
  c.drop_path = 0.9;
  const auto model = tiny_model(c);
  const at::Tensor ids = random_ids(64, 3, 11, 3);
  Forward f;
  f.training = true, f.seed = 1;
  const at::Tensor dropped = all_logits(*model, ids, f);
  // A row whose two sub-layers are both dropped keeps its embedding: 0.45 · 0.9 of the rows.
  const at::Tensor e = at::embedding(model->params().at("transformer.wte.weight").value, ids).detach();
  const at::Tensor h = e * at::rsqrt(e.square().mean(-1, true) + c.norm_eps);
  const at::Tensor bare = model->logits(h * model->params().at("transformer.ln_f.weight").value).detach();
  const at::Tensor same = ((dropped - bare).abs().amax({1, 2}) < 1e-12);
  const double share = same.to(at::kDouble).mean().item<double>();
  EXPECT_GT(share, 0.2);
  EXPECT_LT(share, 0.6);
}

std::unique_ptr<LanguageModel> model_of(const ModelConfig& c, at::ScalarType dtype, at::ScalarType streams) {
  ModelOptions options;
  options.dtype = dtype;
  options.stream_dtype = streams;
  return std::make_unique<LanguageModel>(c, options);
}

// More noise lets the read maps of hyper-connections cancel in some tokens, which no 8-bit arithmetic can follow.
constexpr double kNoise = 0.05;

// Weights are rounded to bf16 in both models, so what is left is the arithmetic's own rounding.
TEST_P(LmScheme, Bf16IsNearFp32) {
  ModelConfig c = tiny_config(GetParam());
  c.d_model = 32, c.mlp_hidden_size = 64;
  const auto rough = model_of(c, at::kBFloat16, at::kBFloat16), mixed = model_of(c, at::kBFloat16, at::kFloat);
  const auto exact = model_of(c, at::kFloat, at::kFloat);
  fill_randomly(rough->params(), 1, kNoise);
  copy_weights(rough->params(), exact->params());
  copy_weights(rough->params(), mixed->params());
  const at::Tensor ids = random_ids(2, 16, 11, 4), want = all_logits(*exact, ids);
  const at::Tensor got = all_logits(*rough, ids), got_mixed = all_logits(*mixed, ids);
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_EQ(got_mixed.scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_error(got, want), 0.05);
  EXPECT_LE(relative_error(got_mixed, want), 0.04);
}

TEST_P(LmScheme, Fp32StreamsUnderBf16Train) {
  for (const bool fused : {true, false}) {
    ModelConfig c = dropout_config(GetParam());
    c.d_model = 32;
    c.fused = fused;
    const auto model = model_of(c, at::kBFloat16, at::kFloat), exact = model_of(c, at::kFloat, at::kFloat);
    fill_randomly(model->params(), 1, kNoise);
    copy_weights(model->params(), exact->params());
    Forward f;
    f.training = true, f.seed = 2;
    const at::Tensor ids = random_ids(4, 12, 11, 5);
    const at::Tensor loss = model->loss(ids, f, 1e-4).total, want = exact->loss(ids, f, 1e-4).total;
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_NEAR(loss.item<double>(), want.item<double>(), 0.03 * std::abs(want.item<double>()));
    const std::vector<at::Tensor> got = gradients(loss, model->params()), right = gradients(want, exact->params());
    double dot = 0, a = 0, b = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(at::isfinite(got[i]).all().item<bool>()) << model->params().all()[i].name;
      EXPECT_EQ(got[i].scalar_type(), at::kBFloat16);
      const at::Tensor x = got[i].to(at::kDouble), y = right[i].to(at::kDouble);
      dot += (x * y).sum().item<double>(), a += x.square().sum().item<double>(), b += y.square().sum().item<double>();
    }
    EXPECT_GT(dot / std::sqrt(a * b), 0.99);  // the direction of all gradients together
  }
}

TEST(LmModel, VocabularyMustBeKnown) {
  ModelConfig c = tiny_config();
  c.vocab_size = 0;
  EXPECT_NE(error_of([&] { tiny_model(c); }).find("model.vocab_size"), std::string::npos);
  c = tiny_config();
  c.scheme = "siamese_hybird";
  EXPECT_NE(error_of([&] { tiny_model(c); }).find("siamese_hybrid'"), std::string::npos);
}

// The probe sees what the training loop names when a value goes bad.
TEST(LmModel, ProbeSeesEverySubLayerInOrder) {
  const auto model = tiny_model(tiny_config());
  std::vector<std::string> seen;
  Forward f;
  f.probe = [&](const std::string& name, const at::Tensor&) { seen.push_back(name); };
  model->loss(random_ids(1, 5, 11), f);
  ASSERT_EQ(seen.size(), 1u + 2 * 2 * 2 + 2);
  EXPECT_EQ(seen.front(), "embedding");
  EXPECT_EQ(seen[1], "projected input of the attention of block 0");
  EXPECT_EQ(seen[8], "output of the feed-forward of block 1");
  EXPECT_EQ(seen.back(), "logits");
}

}  // namespace
}  // namespace siamese
