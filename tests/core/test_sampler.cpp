// Samplers on Gaussian data, where the best ε is known; guidance; noise that belongs to samples, not to batches.
#include "models/sampler.h"

#include <cmath>

#include "leaves.h"
#include "models/noise.h"
#include "near.h"
#include "tiny.h"

namespace siamese {
namespace {

DiffusionConfig linear(int64_t steps = 1000) {
  DiffusionConfig c;
  c.steps = steps;
  return c;
}

/// Data x_0 ~ N(mu, sigma²): x_t ~ N(sqrt(ᾱ)·mu, v) with v = ᾱ·sigma² + 1-ᾱ, and
/// E[ε | x_t] = sqrt(1-ᾱ)·(x_t - sqrt(ᾱ)·mu)/v.
struct Toy {
  double mu = 0.6, sigma = 0.3;
  at::Tensor alphas = at::tensor(Diffusion(linear(), Variance::fixed_small).alphas_cumprod(), at::kDouble);

  at::Tensor epsilon(const at::Tensor& x, const at::Tensor& t) const {
    const at::Tensor ab = alphas.index_select(0, t).view({-1, 1});
    return (1 - ab).sqrt() * (x - ab.sqrt() * mu) / (ab * sigma * sigma + 1 - ab);
  }
  /// The deterministic flow keeps each x at its quantile.
  at::Tensor flow(const at::Tensor& x_last) const {
    const double ab = alphas[-1].item<double>();
    return mu + sigma * (x_last - std::sqrt(ab) * mu) / std::sqrt(ab * sigma * sigma + 1 - ab);
  }
  Denoiser model() const {
    return [this](const at::Tensor& x, const at::Tensor& t) { return epsilon(x, t); };
  }
  /// With the s that gives p the true variance of x_{t-1} at a known x_t, β·v(t-1)/v(t).
  Denoiser model_for(const Diffusion& d) const {
    const at::Tensor ab = at::tensor(d.alphas_cumprod(), at::kDouble), beta = at::tensor(d.betas(), at::kDouble),
                     before = at::cat({at::ones({1}, at::kDouble), ab.slice(0, 0, d.steps() - 1)});
    const at::Tensor tilde = beta * (1 - before) / (1 - ab), v_before = before * (sigma * sigma - 1) + 1;
    at::Tensor f = (beta * v_before / (ab * (sigma * sigma - 1) + 1) / tilde).log() / (beta / tilde).log();
    f[0].zero_();  // adds no noise
    const at::Tensor steps = at::tensor(d.timestep_map(), at::kLong);
    return [this, s = 2 * f - 1, steps](const at::Tensor& x, const at::Tensor& t) {
      const at::Tensor here = s.index_select(0, at::searchsorted(steps, t)).view({-1, 1});
      return at::cat({epsilon(x, t), here.expand_as(x)}, 1);
    };
  }
};

SamplerOptions options(const std::string& method, double eta = 0) {
  SamplerOptions o;
  o.method = method, o.eta = eta, o.dtype = at::kDouble;
  return o;
}

/// What DDPM's chain x → A·x + B + σ·noise makes of the start's mean 0 and variance 1; A and B seen at x = 0 and 1.
std::pair<double, double> chain_moments(const Diffusion& d, const Denoiser& model) {
  const at::Tensor probe = at::tensor({0.0, 1.0}, at::kDouble).view({2, 1});
  double m = 0, v = 1;
  for (int64_t i = d.steps() - 1; i >= 0; --i) {
    const at::Tensor t = at::full({2}, i, at::kLong);
    const ReverseStep p = d.p_mean_variance(model(probe, d.original_steps(t)), probe, t, false);
    const double b = p.mean[0].item<double>(), a = p.mean[1].item<double>() - b;
    m = a * m + b;
    v = a * a * v + (i > 0 ? p.variance[0].item<double>() : 0.0);
  }
  return {m, v};
}

/// Samples against the chain to five standard errors, the chain against the data to what 250 steps leave.
TEST(Sampler, DdpmDrawsTheData) {
  constexpr int64_t kRows = 2000, kWidth = 5;
  constexpr double kCount = kRows * kWidth;
  const OneThread one_thread;
  const Toy toy;
  auto expect_data = [&](const Diffusion& d, const Denoiser& model, double tolerance) {
    const auto [m, v] = chain_moments(d, model);
    EXPECT_NEAR(m, toy.mu, 0.001);
    EXPECT_NEAR(v / (toy.sigma * toy.sigma), 1, tolerance);
    const at::Tensor x = draw_samples(d, model, {kRows, kWidth}, options("ddpm"));
    EXPECT_NEAR(x.mean().item<double>(), m, 5 * std::sqrt(v / kCount));
    EXPECT_NEAR(x.var().item<double>(), v, 5 * v * std::sqrt(2 / kCount));
  };
  // The two fixed variances bracket the true one.
  expect_data(Diffusion(linear(), Variance::fixed_small, 250), toy.model(), 0.09);
  expect_data(Diffusion(linear(), Variance::fixed_large, 250), toy.model(), 0.03);
  const Diffusion learned(linear(), Variance::learned_range, 250);
  expect_data(learned, toy.model_for(learned), 0.002);
}

/// With σ² = β̃, DDIM's mean is the posterior's.
TEST(Sampler, DdimWithFullNoiseIsDdpm) {
  const Toy toy;
  const Diffusion d(linear(), Variance::fixed_small, 40);
  const at::Tensor ddpm = draw_samples(d, toy.model(), {6, 5}, options("ddpm")),
                   ddim = draw_samples(d, toy.model(), {6, 5}, options("ddim", 1));
  expect_near(ddim, ddpm, 0, 1e-11, "x");
}

TEST(Sampler, DdimFollowsTheFlowToFirstOrder) {
  const Toy toy;
  const at::Tensor start = normal_noise({50, 4}, at::kDouble, at::kCPU, NoiseUse::start, {1, 0, 0});
  auto error = [&](int64_t steps) {
    const Diffusion d(linear(), Variance::fixed_large, steps);
    const at::Tensor x = draw_samples(d, toy.model(), {50, 4}, options("ddim"));
    EXPECT_TRUE(at::equal(x, draw_samples(d, toy.model(), {50, 4}, options("ddim"))));
    return largest(x - toy.flow(start));
  };
  const double e50 = error(50), e100 = error(100), e200 = error(200);
  EXPECT_LE(e200, 0.05);
  EXPECT_NEAR(e50 / e100, 2.0, 0.4) << e50;
  EXPECT_NEAR(e100 / e200, 2.0, 0.4) << e100;
}

TEST(Sampler, RespacedToAllStepsIsTheFullProcess) {
  const Toy toy;
  const at::Tensor full =
                       draw_samples(Diffusion(linear(), Variance::fixed_large), toy.model(), {3, 5}, options("ddpm")),
                   same = draw_samples(Diffusion(linear(), Variance::fixed_large, 1000), toy.model(), {3, 5},
                                       options("ddpm"));
  EXPECT_TRUE(at::equal(full, same));
}

TEST(Sampler, ASampleDoesNotDependOnItsBatch) {
  const Toy toy;
  const Diffusion d(linear(), Variance::fixed_large, 20);
  for (const char* method : {"ddpm", "ddim"}) {
    SamplerOptions o = options(method, std::string(method) == "ddim" ? 0.7 : 0);
    const at::Tensor all = draw_samples(d, toy.model(), {5, 7}, o);
    o.first = 2;
    EXPECT_TRUE(at::equal(draw_samples(d, toy.model(), {3, 7}, o), all.slice(0, 2))) << method;
    o.first = 0, o.seed = 2;
    EXPECT_GT(largest(draw_samples(d, toy.model(), {5, 7}, o) - all), 0.01) << method;
    for (int64_t i = 1; i < 5; ++i) EXPECT_GT(largest(all[i] - all[0]), 0.01);
  }
}

TEST(Sampler, ReportsEachStepAndClips) {
  const Diffusion d(linear(), Variance::fixed_large, 10);
  SamplerOptions o = options("ddim");
  o.clip = true;
  std::vector<int64_t> left, seen;
  at::Tensor last;
  o.each_step = [&](const SamplerStep& s) {
    EXPECT_EQ(s.total, 10);
    EXPECT_EQ(s.done, static_cast<int64_t>(left.size()) + 1);
    EXPECT_LE(largest(s.pred_xstart), 1.0);
    left.push_back(s.original_step);
    last = s.x;
  };
  const Denoiser model = [&](const at::Tensor& x, const at::Tensor& t) {
    EXPECT_EQ(t.size(0), x.size(0));
    seen.push_back(t[0].item<int64_t>());
    return 0.1 * x;
  };
  const at::Tensor x = draw_samples(d, model, {2, 3, 4, 4}, o);
  EXPECT_EQ(left, (std::vector<int64_t>{999, 888, 777, 666, 555, 444, 333, 222, 111, 0}));
  EXPECT_EQ(seen, left);  // the model sees the original steps
  EXPECT_TRUE(at::equal(x, last));
  EXPECT_LE(largest(x), 1.0 + 1e-12);  // the last step ends at the clipped x_0
}

TEST(Sampler, OneStepAndRefusals) {
  const Toy toy;
  EXPECT_TRUE(
      at::isfinite(draw_samples(Diffusion(linear(), Variance::fixed_large, 1), toy.model(), {2, 3}, options("ddpm")))
          .all()
          .item<bool>());
  const Diffusion d(linear(), Variance::fixed_large, 2);
  EXPECT_NE(error_of([&] { draw_samples(d, toy.model(), {2, 3}, options("euler")); }).find("euler"), std::string::npos);
  EXPECT_NE(error_of([&] { draw_samples(d, toy.model(), {2, 3}, options("ddim", 1.5)); }), "");
  EXPECT_NE(error_of([&] { draw_samples(d, toy.model(), {2}, options("ddim")); }), "");
}

/// Output = [(label + 1)·x, label + 10]: four channels of prediction and four of variance.
struct Labelled {
  std::vector<std::vector<int64_t>> calls;
  LabelledDenoiser model() {
    return [this](const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels) {
      EXPECT_EQ(t.size(0), x.size(0));
      const int64_t* ids = labels.const_data_ptr<int64_t>();
      calls.emplace_back(ids, ids + labels.numel());
      const at::Tensor y = labels.to(at::kDouble).view({-1, 1, 1, 1});
      return at::cat({(y + 1) * x, (y + 10).expand_as(x)}, 1);
    };
  }
};

TEST(Guidance, MixesTheTwoPredictions) {
  const at::Tensor labels = at::tensor(std::vector<int64_t>{2, 5}, at::kLong), t = at::full({2}, 7, at::kLong),
                   x = random_normal({2, 4, 3, 3}, 1), y = labels.to(at::kDouble).view({-1, 1, 1, 1});
  for (const double cfg : {0.0, 1.0, 3.5}) {
    for (const bool first_three : {false, true}) {
      Labelled fake;
      const at::Tensor out = guided(fake.model(), labels, {cfg, /*null_label=*/9, first_three})(x, t);
      const at::Tensor mixed = 10 * x + cfg * ((y + 1) * x - 10 * x);
      const int64_t count = first_three ? 3 : 4;
      expect_near(out.narrow(1, 0, count), mixed.narrow(1, 0, count), 0, 1e-12, "guided");
      if (first_three) expect_near(out.narrow(1, 3, 1), ((y + 1) * x).narrow(1, 3, 1), 0, 1e-12, "the fourth");
      expect_near(out.narrow(1, 4, 4), (y + 10).expand_as(x), 0, 1e-12, "variance");
      ASSERT_EQ(fake.calls.size(), 1U);
      EXPECT_EQ(fake.calls[0], cfg == 1 ? (std::vector<int64_t>{2, 5}) : (std::vector<int64_t>{2, 5, 9, 9}));
    }
  }
  EXPECT_NE(error_of([&] { guided(Labelled().model(), labels, {2.0, 9, false})(x.slice(0, 1), t.slice(0, 1)); }), "");
}

TEST(Noise, StepsAreUniformAndUsesDiffer) {
  const at::Tensor t = random_steps(100000, 10, at::kCPU, {3, 4, 0});
  EXPECT_EQ(t.min().item<int64_t>(), 0);
  EXPECT_EQ(t.max().item<int64_t>(), 9);
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR((t == i).sum().item<double>(), 10000, 5 * std::sqrt(9000.0)) << i;
  EXPECT_TRUE(at::equal(random_steps(10, 10, at::kCPU, {3, 4, 50}), t.slice(0, 50, 60)));
  auto draw = [](NoiseUse use, int64_t step) { return normal_noise({4, 9}, at::kFloat, at::kCPU, use, {1, step, 0}); };
  EXPECT_GT(largest(draw(NoiseUse::start, 0) - draw(NoiseUse::step, 0)), 0.1);
  EXPECT_GT(largest(draw(NoiseUse::step, 1) - draw(NoiseUse::step, 0)), 0.1);
  EXPECT_EQ(normal_noise({0, 3}, at::kFloat, at::kCPU, NoiseUse::start, {}).numel(), 0);
}

}  // namespace
}  // namespace siamese
