// The head's loss: fused against plain in every type and cut, gradients by finite differences, what it refuses.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradcheck.h"
#include "head_cases.h"
#include "ops/cross_entropy.h"
#include "tiny.h"

namespace siamese {
namespace {

class HeadLossCase : public testing::TestWithParam<HeadCase> {
  const OneThread one_thread_;
};
INSTANTIATE_TEST_SUITE_P(All, HeadLossCase, testing::ValuesIn(head_cases()),
                         [](const auto& p) { return std::string(p.param.name); });

/// Equal, or both NaN: a batch whose targets are all ignored has no mean.
void expect_near(double a, double b, double tolerance) {
  const bool same = std::isnan(b) ? std::isnan(a) : std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
  EXPECT_TRUE(same) << a << " instead of " << b;
}

TEST_P(HeadLossCase, FusedIsPlainInEveryCut) {
  struct Tolerance {
    at::ScalarType type;
    double loss, gradient;
  };
  // bf16: the logits are rounded to 8 bits in both, the truth is the fp64 path.
  for (const Tolerance& t :
       {Tolerance{at::kDouble, 1e-13, 1e-12}, {at::kFloat, 2e-6, 1e-5}, {at::kBFloat16, 1e-2, 3e-2}})
    for (const int64_t chunk : {int64_t{1}, int64_t{3}, GetParam().rows, int64_t{0}}) {
      SCOPED_TRACE(fmt::format("{} by {}", c10::toString(t.type), chunk));
      const HeadInputs in = make_inputs(GetParam(), t.type, at::kCPU, chunk);
      const HeadResult got = run_head(in, true), want = run_head(in_double(in), false);
      EXPECT_EQ(got.g_hidden.scalar_type(), t.type);
      EXPECT_EQ(got.g_weight.scalar_type(), t.type);
      expect_near(got.total, want.total, t.loss);
      expect_near(got.ce, want.ce, t.loss);
      EXPECT_LE(head_error(got.g_hidden, want.g_hidden), t.gradient);
      EXPECT_LE(head_error(got.g_weight, want.g_weight), t.gradient);
    }
}

TEST_P(HeadLossCase, GradientsByFiniteDifferences) {
  if (GetParam().ignored == 1) GTEST_SKIP() << "its loss is NaN";
  const HeadInputs in = make_inputs(GetParam(), at::kDouble, at::kCPU, 3);
  expect_gradients([&] { return lm_head_loss(in.hidden, in.weight, in.targets, in.options).total; },
                   {{"hidden", in.hidden}, {"weight", in.weight}});
}

TEST_P(HeadLossCase, IncomingGradientIsAFactor) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const HeadInputs in = make_inputs(GetParam(), type, at::kCPU, 4);
    const HeadResult one = run_head(in, true), other = run_head(in, true, -0.375);
    const double tolerance = type == at::kBFloat16 ? 5e-3 : 1e-6;
    EXPECT_LE(head_error(other.g_hidden, one.g_hidden * -0.375), tolerance);
    EXPECT_LE(head_error(other.g_weight, one.g_weight * -0.375), tolerance);
  }
}

TEST_P(HeadLossCase, WithoutGradientsTheLossIsTheSame) {
  const HeadInputs in = make_inputs(GetParam(), at::kFloat, at::kCPU, 3);
  const HeadResult with = run_head(in, true);
  const at::NoGradGuard no_grad;
  const HeadLoss loss = lm_head_loss(in.hidden, in.weight, in.targets, in.options);
  EXPECT_FALSE(loss.total.requires_grad());
  expect_near(loss.total.item<double>(), with.total, 1e-6);
  expect_near(loss.ce.item<double>(), with.ce, 1e-6);
}

TEST(HeadLoss, TheWeightMayBeTheEmbedding) {
  const at::Tensor w = random_normal({23, 6}, 1).set_requires_grad(true);
  const at::Tensor ids = at::arange(14).remainder(5), targets = at::arange(14).remainder(23);
  auto loss = [&](bool fused) {
    return lm_head_loss(embed_tokens(w, ids, fused).sin(), w, targets, {kHeadIgnore, 0.1, 1.0, 4}, fused).total;
  };
  expect_gradients([&] { return loss(true); }, {{"weight", w}});
  const auto a = torch::autograd::grad({loss(true)}, {w}), b = torch::autograd::grad({loss(false)}, {w});
  EXPECT_LE(head_error(a[0], b[0]), 1e-13);
}

// As 1/micro-batches is given to the model's loss.
TEST(HeadLoss, ScaleIsAFactorOfTheModelsLoss) {
  const at::Tensor ids = random_ids(2, 7, 11);
  for (const bool fused : {true, false}) {
    ModelConfig config = tiny_config();
    config.fused = fused;
    const auto model = tiny_model(config);
    const LmLoss one = model->loss(ids, {}, 0.01), quarter = model->loss(ids, {}, 0.01, -100, 0.25);
    EXPECT_EQ(one.ce.item<double>(), quarter.ce.item<double>());
    EXPECT_EQ(0.25 * one.total.item<double>(), quarter.total.item<double>());
    const auto a = gradients(one.total, model->params()), b = gradients(quarter.total, model->params());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(head_error(b[i], 0.25 * a[i], 1e-3), 1e-13);
  }
}

TEST(HeadLoss, OnlyWhatIsWantedIsDifferentiated) {
  const HeadInputs in = make_inputs(head_cases()[2], at::kFloat);
  const HeadResult all = run_head(in, true);
  const auto loss = [&](const at::Tensor& h, const at::Tensor& w) {
    return lm_head_loss(h, w, in.targets, in.options);
  };
  const HeadLoss of_hidden = loss(in.hidden, in.weight.detach()), of_weight = loss(in.hidden.detach(), in.weight);
  EXPECT_TRUE(at::equal(torch::autograd::grad({of_hidden.total}, {in.hidden})[0], all.g_hidden));
  EXPECT_TRUE(at::equal(torch::autograd::grad({of_weight.total}, {in.weight})[0], all.g_weight));
  EXPECT_FALSE(of_hidden.ce.requires_grad());
  EXPECT_FALSE(loss(in.hidden.detach(), in.weight.detach()).total.requires_grad());
}

TEST(HeadLoss, GradientsAreHandedOutOnce) {
  const HeadInputs in = make_inputs(head_cases()[2], at::kFloat);
  const at::Tensor total = lm_head_loss(in.hidden, in.weight, in.targets, in.options).total;
  torch::autograd::grad({total}, {in.hidden}, {}, /*retain_graph=*/true);
  EXPECT_THROW(torch::autograd::grad({total}, {in.hidden}), c10::Error);
}

TEST(HeadLoss, SameBitsEveryTime) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const HeadInputs in = make_inputs(head_cases()[7], type, at::kCPU, 40);
    const HeadResult a = run_head(in, true), b = run_head(in, true);
    EXPECT_EQ(a.total, b.total);
    EXPECT_TRUE(at::equal(a.g_hidden, b.g_hidden) && at::equal(a.g_weight, b.g_weight));
  }
}

TEST(HeadLoss, ExtremeLogitsStayFinite) {
  const at::Tensor logits = at::tensor({500.0f, -500.0f, 0.0f, -1e30f, -1e30f, -1e30f}).view({2, 3});
  const at::Tensor targets = at::tensor({1, 0}, at::kLong), count = at::full({}, 2.0f);
  at::Tensor losses = at::empty({2}), squares = at::empty({2}), z = logits.clone();
  cross_entropy_rows_(z, targets, count, losses, squares, {}, true);
  EXPECT_EQ(losses[0].item<float>(), 1000.0f);
  EXPECT_TRUE(at::isfinite(losses).all().item<bool>());
  EXPECT_LE(head_error(z, (at::softmax(logits, -1) - at::one_hot(targets, 3)) / 2), 1e-6);
}

TEST(HeadLoss, ANanIsSeen) {
  HeadInputs in = make_inputs(head_cases()[2], at::kFloat);
  at::Tensor hidden = in.hidden.detach().clone();
  hidden[4].fill_(NAN);
  const at::Tensor total = lm_head_loss(hidden, in.weight, in.targets, in.options).total;
  EXPECT_TRUE(std::isnan(total.item<double>()));
}

TEST(HeadLoss, RefusesWhatDoesNotFit) {
  const HeadInputs in = make_inputs(head_cases()[2], at::kFloat);
  auto error = [](const at::Tensor& h, const at::Tensor& w, const at::Tensor& t) -> std::string {
    try {
      lm_head_loss(h, w, t);
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "";
  };
  const at::Tensor &h = in.hidden, &w = in.weight, &t = in.targets;
  EXPECT_EQ(error(h, w, t), "");
  EXPECT_NE(error(h.unsqueeze(0), w, t).find("[lm_head_loss] hidden must have 2 dimensions but has 3"),
            std::string::npos);
  EXPECT_NE(error(h, w.slice(1, 0, 4), t).find("[lm_head_loss] weight must be [vocabulary, 9]"), std::string::npos);
  EXPECT_NE(error(h, w.to(at::kDouble), t).find("[lm_head_loss] weight is Double"), std::string::npos);
  EXPECT_NE(error(h, w, t.slice(0, 1)).find("[lm_head_loss] targets must be [13]"), std::string::npos);
  EXPECT_NE(error(h, w, t.to(at::kInt)).find("[lm_head_loss] targets must be int64"), std::string::npos);
  EXPECT_NE(error(h, w, t + 33).find("[lm_head_loss] targets must be below 33"), std::string::npos);
}

TEST(HeadLoss, ChunksAreWholeTilesOfAboutEqualSize) {
  EXPECT_EQ(head_chunk_rows(32768, 50304, 2, true), 8192);
  EXPECT_EQ(head_chunk_rows(32768, 100352, 2, true), 4096);
  EXPECT_EQ(head_chunk_rows(2048, 256, 4, false), 2048);  // small: one chunk
  EXPECT_EQ(head_chunk_rows(0, 256, 4, false), 1);
  EXPECT_EQ(head_chunk_rows(1000, 100'000'000, 4, false), 1);
  for (const int64_t rows : {1, 255, 4097, 8193, 20000, 32768, 65536})
    for (const int64_t vocab : {2, 257, 50257, 100352, 2'000'000}) {
      const int64_t chunk = head_chunk_rows(rows, vocab, 2, true);
      EXPECT_GE(chunk, 1);
      EXPECT_LE(chunk * vocab * 2, 850'000'000);
    }
}

TEST(HeadLoss, ShapesAreKnownWithoutNumbers) {
  const HeadInputs in = make_inputs(head_cases()[2], at::kBFloat16);
  const auto meta = [](const at::Tensor& t) { return t.detach().to(at::kMeta); };
  const HeadLoss loss = lm_head_loss(meta(in.hidden).set_requires_grad(true), meta(in.weight), meta(in.targets));
  EXPECT_EQ(loss.total.dim(), 0);
  EXPECT_EQ(loss.total.scalar_type(), at::kFloat);
  EXPECT_TRUE(loss.total.requires_grad());
}

}  // namespace
}  // namespace siamese
