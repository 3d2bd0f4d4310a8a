// Recomputing blocks changes memory, not a single bit of the results.
#include "nn/recompute.h"
#include "tiny.h"

namespace siamese {
namespace {

class RecomputeBlocks : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, RecomputeBlocks, testing::ValuesIn(scheme_names()),
                         [](const auto& p) { return p.param; });

struct Types {
  at::ScalarType values, streams;
};

std::unique_ptr<LanguageModel> model_of(const ModelConfig& c, const Types& types, bool recompute_blocks) {
  ModelOptions options;
  options.dtype = types.values;
  options.stream_dtype = types.streams;
  if (recompute_blocks) options.recompute = Recompute::block;
  auto model = std::make_unique<LanguageModel>(c, options);
  fill_randomly(model->params());
  return model;
}

Forward training_forward(const at::Tensor& ids) {
  Forward f;
  f.training = true, f.seed = 9, f.step = 4, f.row = 6;
  f.documents = document_numbers(ids.slice(1, 0, ids.size(1) - 1), 3);
  return f;
}

TEST_P(RecomputeBlocks, LossAndGradientsAreTheSameBits) {
  const at::Tensor ids = random_ids(3, 10, 11, 8);
  const std::vector<Types> types = {
      {at::kFloat, at::kFloat}, {at::kBFloat16, at::kBFloat16}, {at::kBFloat16, at::kFloat}};
  for (const bool fused : {true, false}) {
    for (const Types& t : types) {
      ModelConfig c = dropout_config(GetParam());
      c.n_layers = 3;
      c.fused = fused;
      const auto plain = model_of(c, t, false), again = model_of(c, t, true);
      const Forward f = training_forward(ids);
      const at::Tensor a = plain->loss(ids, f, 0.01).total, b = again->loss(ids, f, 0.01).total;
      EXPECT_TRUE(at::equal(a, b));
      const std::vector<at::Tensor> ga = gradients(a, plain->params()), gb = gradients(b, again->params());
      for (size_t i = 0; i < ga.size(); ++i)
        EXPECT_TRUE(at::equal(ga[i], gb[i])) << plain->params().all()[i].name << " " << c10::toString(t.values)
                                             << " differs by " << (ga[i] - gb[i]).abs().max().item<double>();
    }
  }
}

// backward() accumulates into .grad, which is the way training takes.
TEST_P(RecomputeBlocks, BackwardFillsEveryGradient) {
  const auto plain = tiny_model(dropout_config(GetParam()), at::kFloat);
  const auto again = tiny_model(dropout_config(GetParam()), at::kFloat, true);
  const at::Tensor ids = random_ids(3, 10, 11, 9);
  for (const auto* model : {plain.get(), again.get()})
    for (int64_t i = 0; i < 2; ++i) torch::autograd::backward({model->loss(ids, training_forward(ids)).total});
  for (const Parameter& p : plain->params().all()) {
    const at::Tensor want = p.value.grad(), got = again->params().at(p.name).value.grad();
    ASSERT_EQ(want.defined(), got.defined()) << p.name;
    EXPECT_TRUE(!want.defined() || at::equal(want, got)) << p.name;
  }
}

TEST(Recompute, WithoutGradientsNothingIsKept) {
  const auto plain = tiny_model(tiny_config()), again = tiny_model(tiny_config(), at::kDouble, true);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(2, 6, 11);
  EXPECT_TRUE(at::equal(plain->hidden(ids, {}), again->hidden(ids, {})));
  EXPECT_FALSE(again->hidden(ids, {}).requires_grad());
}

// The function runs once on the way forward and once on the way back, the second time with gradients on.
TEST(Recompute, RunsTwice) {
  at::Tensor w = at::full({}, 3.0, at::kDouble).set_requires_grad(true);
  at::Tensor x = at::full({}, 2.0, at::kDouble).set_requires_grad(true);
  std::vector<bool> modes;
  const auto out = recompute(
      [&](const std::vector<at::Tensor>& in) {
        modes.push_back(at::GradMode::is_enabled());
        return std::vector<at::Tensor>{in[0] * in[0] * w, in[0] + w};
      },
      {x}, {w});
  EXPECT_EQ(modes, std::vector<bool>{false});
  const auto g = torch::autograd::grad({out[0] + 5 * out[1]}, {x, w});
  EXPECT_EQ(modes, (std::vector<bool>{false, true}));
  EXPECT_EQ(g[0].item<double>(), 2 * 2 * 3 + 5);
  EXPECT_EQ(g[1].item<double>(), 4 + 5);
}

TEST(Recompute, UnusedOutputsAndInputsWithoutGradient) {
  at::Tensor w = at::full({}, 3.0, at::kDouble).set_requires_grad(true);
  const at::Tensor x = at::full({}, 2.0, at::kDouble);  // as a mask would be
  const auto out = recompute(
      [&](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{in[0] * w, w * w};
      },
      {x}, {w});
  EXPECT_EQ(torch::autograd::grad({out[0]}, {w})[0].item<double>(), 2);
}

}  // namespace
}  // namespace siamese
