// Gaussian diffusion: closed forms and gradients. The published code's numbers: test_parity_diffusion.cpp.
#include "models/diffusion.h"

#include <cmath>
#include <numbers>

#include "gradcheck.h"
#include "models/noise.h"
#include "models/respace.h"
#include "near.h"
#include "tiny.h"

namespace siamese {
namespace {

DiffusionConfig config(const std::string& predict = "epsilon", int64_t steps = 1000,
                       const std::string& schedule = "linear") {
  DiffusionConfig c;
  c.predict = predict, c.steps = steps, c.schedule = schedule;
  return c;
}

/// Random tensors of a batch with both ends of the process in it.
struct Batch {
  at::Tensor t = at::tensor(std::vector<int64_t>{0, 1, 17, 500, 999}, at::kLong);
  at::Tensor x0 = random_normal({5, 2, 3, 3}, 1).clamp(-1, 1), noise = random_normal({5, 2, 3, 3}, 2);
  at::Tensor prediction = random_normal({5, 2, 3, 3}, 3), s = random_normal({5, 2, 3, 3}, 4);
  at::Tensor output = at::cat({prediction, s}, 1);
};

TEST(Respace, StepsAndBetas) {
  EXPECT_EQ(respaced_steps(6, 3), (std::vector<int64_t>{0, 2, 5}));  // 2.5 to the even 2
  EXPECT_EQ(respaced_steps(8, 3), (std::vector<int64_t>{0, 4, 7}));  // 3.5 to the even 4
  EXPECT_EQ(respaced_steps(1000, 1), (std::vector<int64_t>{0}));
  EXPECT_EQ(respaced_steps(1000, 2), (std::vector<int64_t>{0, 999}));
  const std::vector<double> betas = noise_schedule("linear", 1000), full = cumulative_alphas(betas);
  EXPECT_EQ(betas.front(), 1e-4);
  EXPECT_EQ(betas.back(), 0.02);
  for (const int64_t n : {1, 7, 250, 1000}) {
    const std::vector<int64_t> kept = respaced_steps(1000, n);
    const std::vector<double> few = respaced_betas(betas, kept), products = cumulative_alphas(few);
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_NEAR(products[i], full[static_cast<size_t>(kept[i])], 1e-13);
      if (n == 1000) {
        EXPECT_NEAR(few[i], betas[i], 1e-14);
      }
    }
  }
  // cosine: ᾱ is the squared cosine until the last β is capped.
  const std::vector<double> cosine = cumulative_alphas(noise_schedule("cosine", 50));
  auto a = [](double u) { return std::pow(std::cos((u + 0.008) / 1.008 * std::numbers::pi / 2), 2); };
  for (size_t t = 0; t < 49; ++t) EXPECT_NEAR(cosine[t], a(static_cast<double>(t + 1) / 50) / a(0), 1e-12);
  EXPECT_NEAR(cosine[49], cosine[48] * 0.001, 1e-12);
}

TEST(Diffusion, RefusesByName) {
  EXPECT_NE(error_of([] { Diffusion(config("x0"), Variance::fixed_large); }).find("x0"), std::string::npos);
  EXPECT_NE(error_of([] { Diffusion(config("v", 50, "square"), Variance::fixed_large); }).find("square"),
            std::string::npos);
  EXPECT_NE(error_of([] { Diffusion(config("v", 20), Variance::fixed_large); }).find("diffusion.steps"),
            std::string::npos);
  EXPECT_NE(error_of([] { Diffusion(config(), Variance::fixed_large, 1001); }), "");
  const Batch b;
  EXPECT_NE(error_of([&] { Diffusion(config(), Variance::fixed_large).p_mean_variance(b.output, b.x0, b.t, false); }),
            "");
  EXPECT_NE(error_of([&] { Diffusion(config(), Variance::learned_range).q_sample(b.x0, b.t.slice(0, 1), b.noise); }),
            "");
}

/// q(x_{t-1} | x_0) from q(x_t | x_0) and the posterior: c1 + c2·sqrt(ᾱ_t) = sqrt(ᾱ_{t-1}), c2²(1-ᾱ_t) + β̃ = 1-ᾱ_{t-1}.
TEST(Diffusion, PosteriorLeadsBackToTheStepBefore) {
  for (const int64_t respace : {0, 20})
    for (const char* schedule : {"linear", "cosine"}) {
      const Diffusion d(config("v", 200, schedule), Variance::fixed_small, respace);
      const at::Tensor t = at::arange(d.steps(), at::kLong), one = at::ones({d.steps(), 1}, at::kDouble);
      const at::Tensor ab = at::tensor(d.alphas_cumprod(), at::kDouble).view({-1, 1});
      const at::Tensor before = at::cat({at::ones({1, 1}, at::kDouble), ab.slice(0, 0, d.steps() - 1)});
      // v chosen so that x_0 is 1 at x_t = 0, and 0 at x_t = 1.
      const ReverseStep p1 = d.p_mean_variance(-1 / (1 - ab).sqrt(), 0 * one, t, false),
                        p2 = d.p_mean_variance((ab / (1 - ab)).sqrt(), one, t, false);
      expect_near(p1.pred_xstart, one, 0, 1e-11, "x_0");
      expect_near(p1.mean + p2.mean * ab.sqrt(), before.sqrt(), 0, 1e-11, "mean");
      expect_near(p2.mean.square() * (1 - ab) + p1.variance, 1 - before, 0, 1e-11, "variance");
      expect_near(p1.log_variance.exp().slice(0, 1), p1.variance.slice(0, 1), 1e-12, 0, "log variance");
    }
}

TEST(Diffusion, QSampleHasTheProcesssMoments) {
  constexpr int64_t kCount = 200000;
  const Diffusion d(config(), Variance::fixed_large);
  const at::Tensor noise = normal_noise({1, kCount}, at::kDouble, at::kCPU, NoiseUse::training, {1, 0, 0});
  for (const int64_t t : {0, 300, 999}) {
    const at::Tensor x = d.q_sample(at::full({1, kCount}, 0.7, at::kDouble), at::full({1}, t, at::kLong), noise);
    const double ab = d.alphas_cumprod()[static_cast<size_t>(t)], deviation = std::sqrt((1 - ab) / kCount);
    EXPECT_NEAR(x.mean().item<double>(), 0.7 * std::sqrt(ab), 5 * deviation);
    EXPECT_NEAR(x.var().item<double>(), 1 - ab, 5 * (1 - ab) * std::sqrt(2.0 / kCount));
  }
}

/// v = (ε - sqrt(1-ᾱ)·x_t)/sqrt(ᾱ) says what ε says; its squared error is 1/ᾱ times as large.
TEST(Diffusion, EpsilonAndVPredictionsAreEquivalent) {
  const Batch b;
  const Diffusion of_eps(config("epsilon"), Variance::learned_range), of_v(config("v"), Variance::learned_range);
  const at::Tensor x_t = of_eps.q_sample(b.x0, b.t, b.noise);
  const at::Tensor ab = at::tensor(of_eps.alphas_cumprod(), at::kDouble).index_select(0, b.t).view({-1, 1, 1, 1});
  const at::Tensor v = (b.prediction - (1 - ab).sqrt() * x_t) / ab.sqrt(), output = at::cat({v, b.s}, 1);
  const ReverseStep p = of_eps.p_mean_variance(b.output, x_t, b.t, false),
                    q = of_v.p_mean_variance(output, x_t, b.t, false);
  expect_near(q.pred_xstart, p.pred_xstart, 0, 1e-12, "x_0");
  expect_near(q.mean, p.mean, 0, 1e-12, "mean");
  EXPECT_TRUE(at::equal(q.variance, p.variance));
  const DiffusionLosses l = of_eps.training_losses(b.output, b.x0, x_t, b.t, b.noise),
                        m = of_v.training_losses(output, b.x0, x_t, b.t, b.noise);
  expect_near(m.mse * ab.view({-1}), l.mse, 1e-10, 0, "mse");
  expect_near(m.vb, l.vb, 1e-10, 0, "vb");
}

TEST(Diffusion, LossesOfAFixedVarianceAreTheSquaredErrorAlone) {
  const Batch b;
  for (const Variance variance : {Variance::fixed_large, Variance::fixed_small}) {
    const Diffusion d(config(), variance);
    const DiffusionLosses l = d.training_losses(b.prediction, b.x0, d.q_sample(b.x0, b.t, b.noise), b.t, b.noise);
    EXPECT_FALSE(l.vb.defined());
    EXPECT_TRUE(at::equal(l.loss, l.mse));
    expect_near(l.mse, (b.prediction - b.noise).square().mean({1, 2, 3}), 1e-12, 0, "mse");
  }
  EXPECT_EQ(variance_for(false), Variance::fixed_large);
}

/// The right ε: only the variances differ, KL = ½(ln(β/β̃) - 1 + β̃/β) at s = 1 and 0 at s = -1.
TEST(Diffusion, BoundOfAPerfectPrediction) {
  const Batch b;
  const at::Tensor late = b.t.slice(0, 1), x0 = b.x0.slice(0, 1), noise = b.noise.slice(0, 1);
  const Diffusion d(config(), Variance::learned_range), small(config(), Variance::fixed_small);
  const at::Tensor x_t = d.q_sample(x0, late, noise), one = at::ones_like(x0);
  auto bound = [&](const at::Tensor& s) { return d.training_losses(at::cat({noise, s}, 1), x0, x_t, late, noise).vb; };
  EXPECT_LE(largest(bound(-one)), 1e-9);
  const at::Tensor beta = at::tensor(d.betas(), at::kDouble).index_select(0, late),
                   tilde =
                       small.p_mean_variance(noise, x_t, late, false).variance.select(1, 0).select(1, 0).select(1, 0);
  expect_near(bound(one), 0.5 * ((beta / tilde).log() - 1 + tilde / beta) / std::numbers::ln2, 1e-7, 1e-9, "vb");
}

/// At t = 0 the bound is a likelihood of 256 values: it sums to 1 over them.
TEST(Diffusion, LikelihoodOfTheLastStepSumsToOne) {
  const Diffusion d(config(), Variance::learned_range);
  const at::Tensor x0 = at::linspace(-1, 1, 256, at::kDouble).view({256, 1}), t = at::zeros({256}, at::kLong);
  for (const double x : {-1.2, -0.99, 0.003, 0.7, 1.0}) {
    const at::Tensor x_t = at::full_like(x0, x), output = at::full({256, 2}, 0.3, at::kDouble);
    const at::Tensor bits = d.training_losses(output, x0, x_t, t, at::zeros_like(x0)).vb;
    EXPECT_NEAR((-bits).exp2().sum().item<double>(), 1.0, 1e-9) << x;
  }
}

TEST(Diffusion, GradientsAndWhatTheBoundLeavesAlone) {
  const Batch b;
  for (const char* predict : {"epsilon", "v"}) {
    const Diffusion d(config(predict), Variance::learned_range);
    const at::Tensor x_t = d.q_sample(b.x0, b.t, b.noise), weight = random_normal({5}, 6).exp();
    // Near the truth and in range, where nothing is clamped away.
    const at::Tensor prediction = (d.target(b.x0, b.t, b.noise) + 0.05 * b.prediction).set_requires_grad(true),
                     s = (0.3 * b.s).set_requires_grad(true);
    auto losses = [&] { return d.training_losses(at::cat({prediction, s}, 1), b.x0, x_t, b.t, b.noise); };
    expect_gradients([&] { return (losses().mse * weight).sum(); }, {{"prediction", prediction}});
    expect_gradients([&] { return (losses().loss * weight).sum(); }, {{"s", s}});
    const auto grads = torch::autograd::grad({losses().vb.sum()}, {prediction, s}, {}, false, false, true);
    EXPECT_TRUE(!grads[0].defined() || largest(grads[0]) == 0) << predict;
    for (int64_t i = 0; i < 5; ++i) EXPECT_GT(largest(grads[1][i]), 0) << predict << " t " << i;
  }
}

TEST(Diffusion, BriefTypesAreComputedInFp32) {
  const Batch b;
  const Diffusion d(config(), Variance::learned_range);
  const at::Tensor x0 = b.x0.to(at::kFloat), noise = b.noise.to(at::kFloat), x_t = d.q_sample(x0, b.t, noise);
  const at::Tensor output = b.output.to(at::kBFloat16);
  const DiffusionLosses l = d.training_losses(output, x0, x_t, b.t, noise);
  EXPECT_EQ(l.loss.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(l.loss, d.training_losses(output.to(at::kFloat), x0, x_t, b.t, noise).loss));
}

}  // namespace
}  // namespace siamese
