// Every option of the language model: gradients against finite differences, and that the option does something.
#include "gradcheck.h"
#include "nn/tensor_io.h"
#include "tiny.h"

namespace siamese {
namespace {

constexpr int64_t kEos = 3;

struct Option {
  const char* name;
  void (*set)(ModelConfig&);
  bool training = false;
  bool documents = false;
  double z_loss = 0;
};

void layer_norm(ModelConfig& c) { c.norm = "layer"; }

const std::vector<Option> kOptions = {
    {"plain", [](ModelConfig&) {}},
    {"unfused", [](ModelConfig& c) { c.fused = false; }},
    {"gelu", [](ModelConfig& c) { c.activation = "gelu"; }},
    {"layer_norm", layer_norm},
    {"layer_norm_bias", [](ModelConfig& c) { layer_norm(c), c.norm_bias = true; }},
    {"layer_norm_no_affine", [](ModelConfig& c) { layer_norm(c), c.norm_affine = false; }},
    {"rms_no_affine", [](ModelConfig& c) { c.norm_affine = false; }},
    {"bias", [](ModelConfig& c) { c.bias = true; }},
    {"gqa", [](ModelConfig& c) { c.n_heads = 4, c.n_kv_heads = 2; }},
    {"mqa", [](ModelConfig& c) { c.n_heads = 4, c.n_kv_heads = 1; }},
    {"untied", [](ModelConfig& c) { c.weight_tying = false; }},
    {"qk_norm_head", [](ModelConfig& c) { c.qk_norm = "head"; }},
    {"qk_norm_projection", [](ModelConfig& c) { c.qk_norm = "projection", c.n_kv_heads = 1; }},
    {"qk_norm_projection_no_affine", [](ModelConfig& c) { c.qk_norm = "projection", c.norm_affine = false; }},
    {"z_loss", [](ModelConfig&) {}, false, false, 0.1},
    {"residual_dropout", [](ModelConfig& c) { c.residual_dropout = 0.3; }, true},
    {"embedding_dropout", [](ModelConfig& c) { c.embedding_dropout = 0.3; }, true},
    {"attention_dropout", [](ModelConfig& c) { c.attention_dropout = 0.3; }, true},
    {"attention_dropout_documents", [](ModelConfig& c) { c.attention_dropout = 0.3; }, true, true},
    {"drop_path", [](ModelConfig& c) { c.drop_path = 0.6; }, true},
    {"documents", [](ModelConfig&) {}, false, true},
    {"everything",
     [](ModelConfig& c) {
       layer_norm(c), c.norm_bias = c.bias = true, c.activation = "gelu", c.weight_tying = false;
       c.n_kv_heads = 1, c.qk_norm = "head";
       c.residual_dropout = c.embedding_dropout = c.attention_dropout = 0.2, c.drop_path = 0.4;
     },
     true, true, 0.05},
};

/// pre has a single stream and takes every option, siamese two; the others are under test_scheme_gradients.
const std::vector<std::string> kSchemes = {"pre", "siamese"};

at::Tensor sample_ids() {
  at::Tensor ids = random_ids(3, 9, 11);
  ids.masked_fill_(ids == kEos, 4);
  ids[0][3].fill_(kEos);
  ids[1][5].fill_(kEos);
  return ids;
}

Forward forward_for(const Option& option, const at::Tensor& ids) {
  Forward f;
  f.training = option.training;
  f.seed = 11;
  f.step = 5;
  if (option.documents) f.documents = document_numbers(ids.slice(1, 0, ids.size(1) - 1), kEos);
  return f;
}

class LmOptions : public testing::TestWithParam<std::tuple<std::string, size_t>> {
 protected:
  const Option& option() const { return kOptions[std::get<1>(GetParam())]; }
  ModelConfig config() const {
    ModelConfig c = tiny_config(std::get<0>(GetParam()));
    option().set(c);
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(All, LmOptions,
                         testing::Combine(testing::ValuesIn(kSchemes), testing::Range(size_t{0}, kOptions.size())),
                         [](const auto& p) {
                           return std::get<0>(p.param) + "_" + kOptions[std::get<1>(p.param)].name;
                         });

TEST_P(LmOptions, GradientsAreRight) {
  const auto model = tiny_model(config());
  const at::Tensor ids = sample_ids();
  const Forward forward = forward_for(option(), ids);
  expect_gradients([&] { return model->loss(ids, forward, option().z_loss).total; }, named(model->params()), 1e-6);
}

// A gradient check alone passes for an option that is ignored.
TEST_P(LmOptions, ChangesTheLoss) {
  const auto plain = tiny_model(tiny_config(std::get<0>(GetParam()))), model = tiny_model(config());
  const at::Tensor ids = sample_ids();
  const double without = plain->loss(ids, {}).total.item<double>();
  const double with = model->loss(ids, forward_for(option(), ids), option().z_loss).total.item<double>();
  const std::string_view name = option().name;
  if (name == "plain" || name == "unfused") {
    EXPECT_NEAR(with, without, 1e-12);
  } else {
    EXPECT_GT(std::abs(with - without), 1e-4);
  }
}

TEST_P(LmOptions, FusedAndPlainAgree) {
  ModelConfig c = config();
  const auto fused = tiny_model(c);
  c.fused = false;
  const auto plain = tiny_model(c);
  const at::Tensor ids = sample_ids();
  const Forward forward = forward_for(option(), ids);
  const at::Tensor a = fused->loss(ids, forward, option().z_loss).total;
  const at::Tensor b = plain->loss(ids, forward, option().z_loss).total;
  EXPECT_NEAR(a.item<double>(), b.item<double>(), 1e-12);
  const std::vector<at::Tensor> ga = gradients(a, fused->params()), gb = gradients(b, plain->params());
  for (size_t i = 0; i < ga.size(); ++i)
    EXPECT_LE((ga[i] - gb[i]).abs().max().item<double>(), 1e-11) << fused->params().all()[i].name;
}

TEST(LmLossOptions, ZLossIsTheMeanSquareOfLogsumexp) {
  const auto model = tiny_model(tiny_config());
  const at::Tensor ids = sample_ids();
  const at::Tensor logits = model->logits(model->hidden(ids.slice(1, 0, 8), {}));
  const LmLoss loss = model->loss(ids, {}, 0.25);
  const double z = at::logsumexp(logits, -1).square().mean().item<double>();
  const at::Tensor right = at::log_softmax(logits, -1).gather(-1, ids.slice(1, 1).unsqueeze(-1));
  EXPECT_NEAR(loss.ce.item<double>(), -right.mean().item<double>(), 1e-12);
  EXPECT_NEAR(loss.total.item<double>(), loss.ce.item<double>() + 0.25 * z, 1e-12);
}

TEST(LmLossOptions, IgnoredTargetsDoNotCount) {
  const auto model = tiny_model(tiny_config());
  const at::Tensor ids = sample_ids();
  const at::Tensor shorter = ids.slice(1, 0, 6);
  at::Tensor padded = shorter.new_full({3, 9}, 10);  // 10 is the id that is ignored
  padded.slice(1, 0, 6).copy_(shorter.masked_fill(shorter == 10, 9));
  const double a = model->loss(padded, {}, 0, 10).ce.item<double>();
  const double b = model->loss(padded.slice(1, 0, 6), {}).ce.item<double>();
  EXPECT_NEAR(a, b, 1e-12);
}

// The widths of these norms are the difference between the two kinds; without a gain nothing else tells them apart.
TEST(LmQkNorm, HeadAndProjectionAreTwoThings) {
  for (const bool affine : {true, false}) {
    ModelConfig c = tiny_config("pre");
    c.norm_affine = affine;
    c.qk_norm = "head";
    const auto head = tiny_model(c);
    c.qk_norm = "projection";
    const auto projection = tiny_model(c);
    const at::Tensor ids = sample_ids();
    EXPECT_GT(std::abs(head->loss(ids, {}).ce.item<double>() - projection->loss(ids, {}).ce.item<double>()), 1e-5);
    if (!affine) continue;
    EXPECT_EQ(head->params().at("transformer.blocks.0.q_norm.weight").value.size(0), 4);
    EXPECT_EQ(projection->params().at("transformer.blocks.0.q_norm.weight").value.size(0), 8);
  }
}

// Dropout: the same numbers for the same (seed, step), others for another step, none outside training.
TEST(LmDropout, DependsOnSeedAndStepAlone) {
  const auto model = tiny_model(dropout_config()), without = tiny_model(tiny_config());
  const at::Tensor ids = sample_ids();
  auto loss = [&](bool training, int64_t seed, int64_t step) {
    Forward f;
    f.training = training, f.seed = seed, f.step = step;
    return model->loss(ids, f).ce.item<double>();
  };
  EXPECT_EQ(loss(true, 1, 1), loss(true, 1, 1));
  EXPECT_NE(loss(true, 1, 1), loss(true, 1, 2));
  EXPECT_NE(loss(true, 1, 1), loss(true, 2, 1));
  EXPECT_EQ(loss(false, 1, 1), without->loss(ids, {}).ce.item<double>());
}

}  // namespace
}  // namespace siamese
