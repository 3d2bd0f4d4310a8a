// Language models with mixtures, under every scheme: gradients, recomputation, micro-batches, the cache, the switches
// that belong to the model.
#include "mixture_cases.h"
#include "models/generate.h"
#include "train/models.h"

namespace siamese {
namespace {

class MixtureScheme : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, MixtureScheme, testing::ValuesIn(scheme_names()), [](const auto& p) { return p.param; });

TEST_P(MixtureScheme, GradientsAgreeWithFiniteDifferences) {
  for (const bool fused : {true, false}) {
    ModelConfig c = mixture_config(GetParam());
    c.fused = fused;
    const auto model = random_model(c);
    const at::Tensor ids = random_ids(2, 6, c.vocab_size, 3);
    expect_gradients([&] { return model->loss(ids, {}, 0.01).total; }, leaves_of(model->params()));
  }
}

TEST_P(MixtureScheme, RecomputedBlocksGiveTheSameBits) {
  ModelConfig c = mixture_config(GetParam());
  c.n_layers = 3;
  c.residual_dropout = 0.2;
  c.moe.jitter = 0.1, c.moe.capacity_factor = 1.0, c.moe.shared_experts = 1, c.moe.dense_blocks = 1;
  const at::Tensor ids = random_ids(3, 10, c.vocab_size, 8);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto plain = tiny_model(c, type), again = tiny_model(c, type, /*recompute_blocks=*/true);
    Forward f;
    f.training = true, f.seed = 9, f.step = 4, f.row = 6;
    const LmLoss a = plain->loss(ids, f), b = again->loss(ids, f);
    EXPECT_TRUE(at::equal(a.total, b.total));
    EXPECT_TRUE(at::equal(a.loads, b.loads));
    EXPECT_TRUE(at::equal(a.balance, b.balance) && at::equal(a.router_z, b.router_z));
    const auto ga = gradients(a.total, plain->params()), gb = gradients(b.total, again->params());
    for (size_t i = 0; i < ga.size(); ++i)
      EXPECT_TRUE(at::equal(ga[i], gb[i])) << plain->params().all()[i].name << " " << type;
  }
}

TEST_P(MixtureScheme, LearnsAndWritesWithAndWithoutTheCache) {
  ModelConfig c = mixture_config(GetParam());
  c.d_model = 32, c.n_heads = 4, c.n_kv_heads = 2, c.vocab_size = 256, c.moe.expert_hidden_size = 32;
  c.moe.balance_weight = 0.01, c.moe.router_z_weight = 0.001, c.moe.capacity_factor = 1.0;
  LanguageModel model(c, ModelOptions{});
  model.params().initialise(1);
  DataConfig data;
  data.source = "sentences";
  const auto source = make_source(data, 32, 1);
  at::Tensor ids = at::empty({1, 33}, at::kLong);
  source->sample(99, {ids.mutable_data_ptr<int64_t>(), 33});
  const double before = model.loss(ids, {}).ce.item<double>();
  train_briefly(model, *source, 32, 20);
  EXPECT_LT(model.loss(ids, {}).ce.item<double>(), before - 0.5);
  SamplingOptions o;
  o.tokens = 40, o.temperature = 0;
  const auto with = generate(model, encode_bytes("Mira "), o, {});
  o.cache = false;
  EXPECT_EQ(with, generate(model, encode_bytes("Mira "), o, {}));
}

TEST(MixtureModel, TotalIsTheWeightedSum) {
  const ModelConfig c = mixture_config();
  const auto model = random_model(c);
  const at::Tensor ids = random_ids(2, 7, c.vocab_size);
  const LmLoss loss = model->loss(ids, {}, 0.0, -100, 0.5);
  const double want = 0.5 * (loss.ce + 0.5 * loss.balance + 0.1 * loss.router_z).item<double>();
  EXPECT_NEAR(loss.total.item<double>(), want, 1e-12);
  EXPECT_EQ(loss.loads.sizes(), (at::IntArrayRef{2, 6}));
  EXPECT_EQ(loss.loads.slice(1, 0, 4).sum().item<double>(), 2 * 12 * 2);
}

// The balance loss is left out where a bias balances or nothing does; it is reported all the same.
TEST(MixtureModel, BiasTakesThePlaceOfTheLoss) {
  ModelConfig c = mixture_config();
  const at::Tensor ids = random_ids(2, 7, c.vocab_size);
  for (const char* balance : {"bias", "none"}) {
    c.moe.balance = balance;
    const auto model = random_model(c);
    const LmLoss loss = model->loss(ids, {});
    EXPECT_NEAR(loss.total.item<double>(), (loss.ce + 0.1 * loss.router_z).item<double>(), 1e-12);
    EXPECT_GT(loss.balance.item<double>(), 0.5);
    EXPECT_EQ(model->params().has("transformer.blocks.0.moe.balance_bias"), c.moe.balance == "bias");
  }
}

TEST(MixtureModel, BiasFollowsTheLoadOfItsOwnBlock) {
  ModelConfig c = mixture_config();
  c.moe.balance = "bias", c.moe.bias_rate = 0.5, c.moe.dense_blocks = 1, c.n_layers = 3;
  LanguageModel model(c, ModelOptions{});
  model.params().initialise(1);
  model.balance_experts(at::tensor({9.0, 1.0, 5.0, 5.0, 0.0, 0.0, 5.0, 5.0, 5.0, 5.0, 0.0, 0.0}).view({2, 6}));
  EXPECT_TRUE(at::equal(model.params().at("transformer.blocks.1.moe.balance_bias").value,
                        at::tensor({-0.5F, 0.5F, 0.0F, 0.0F})));
  EXPECT_EQ(model.params().at("transformer.blocks.2.moe.balance_bias").value.abs().max().item<double>(), 0);
}

TEST(MixtureModel, FirstBlocksStayDense) {
  ModelConfig c = mixture_config();
  c.moe.dense_blocks = 1;
  const auto model = random_model(c);
  EXPECT_EQ(model->mixtures(), 1);
  EXPECT_TRUE(model->params().has("transformer.blocks.0.ff_proj.weight"));
  EXPECT_FALSE(model->params().has("transformer.blocks.0.moe.w1"));
  EXPECT_TRUE(model->params().has("transformer.blocks.1.moe.w1"));
  EXPECT_EQ(model->loss(random_ids(2, 7, c.vocab_size), {}).loads.size(0), 1);
  expect_gradients([&] { return model->loss(random_ids(2, 6, c.vocab_size), {}).total; }, leaves_of(model->params()));
}

TEST(MixtureModel, RouterIsFp32AndStatesAreNoParameters) {
  ModelConfig c = mixture_config();
  c.moe.balance = "bias";
  ModelOptions options;
  options.dtype = options.stream_dtype = at::kBFloat16;
  const LanguageModel model(c, options);
  const Params& params = model.params();
  EXPECT_EQ(params.at("transformer.blocks.0.moe.router.weight").value.scalar_type(), at::kFloat);
  EXPECT_EQ(params.at("transformer.blocks.0.moe.w1").value.scalar_type(), at::kBFloat16);
  const Parameter& bias = params.at("transformer.blocks.0.moe.balance_bias");
  EXPECT_EQ(bias.value.scalar_type(), at::kFloat);
  EXPECT_FALSE(bias.value.requires_grad());
  c.moe.balance = "loss";
  EXPECT_EQ(params.count(), LanguageModel(c, options).params().count());
}

TEST(MixtureModel, ActiveParametersLeaveOutUnusedExperts) {
  ModelConfig c = mixture_config();
  c.moe.shared_experts = 1, c.moe.balance = "bias";
  const auto model = random_model(c);
  const int64_t expert = 3 * 6 * 8;  // three matrices of 6 × 8
  EXPECT_EQ(active_parameters(model->params(), c), model->params().count() - 2 * 2 * expert);
  EXPECT_EQ(active_parameters(random_model(tiny_config())->params(), tiny_config()),
            random_model(tiny_config())->params().count());
}

}  // namespace
}  // namespace siamese
