// A mixture of experts against its formula, written out token by token: every switch by itself.
#include <cmath>

#include "mixture_cases.h"

namespace siamese {
namespace {

const at::Tensor kInput = random_normal({2, 4, 6}, 21);  // 8 tokens

Forward training(RoutingReport* report = nullptr) {
  Forward f;
  f.training = true, f.seed = 3, f.step = 5;
  f.routing = report;
  return f;
}

/// What the recipe's switches say, of one token.
struct Token {
  at::Tensor logits, scores;
  std::vector<int64_t> chosen;  // best first
  std::vector<double> weights;
};

Token token_of(const Mixture& m, const at::Tensor& x) {
  Token t;
  t.logits = at::mv(m.router, x).detach();
  t.scores = m.config.score == "softmax" ? t.logits.softmax(0) : t.logits.sigmoid();
  at::Tensor left = (m.bias.defined() ? t.scores + m.bias : t.scores).clone();
  double sum = 0;
  for (int64_t j = 0; j < m.config.top_k; ++j) {
    t.chosen.push_back(left.argmax().item<int64_t>());
    left[t.chosen.back()] = -1e9;
    t.weights.push_back(t.scores[t.chosen.back()].item<double>());
    sum += t.weights.back();
  }
  for (double& w : t.weights) w /= m.config.renormalize ? sum : 1;
  return t;
}

at::Tensor feed_forward(const at::Tensor& w1, const at::Tensor& w2, const at::Tensor& x) {
  return at::mv(w2, activate_plain(at::mv(w1, x), Activation::swiglu));
}

/// The formula of nn/mixture.h; `capacity` 0: nobody is dropped.
at::Tensor expected(const Mixture& m, int64_t capacity = 0) {
  const at::NoGradGuard no_grad;
  at::Tensor out = at::zeros({8, 6}, at::kDouble);
  const at::Tensor x = kInput.view({8, 6});
  std::vector<int64_t> taken(5, 0);
  for (int64_t t = 0; t < 8; ++t) {
    const Token token = token_of(m, x[t]);
    for (size_t j = 0; j < token.chosen.size(); ++j) {
      const int64_t e = token.chosen[j];
      if (capacity > 0 && taken[static_cast<size_t>(e)]++ >= capacity) continue;
      out[t] += token.weights[j] * feed_forward(m.w1[e], m.w2[e], x[t]);
    }
    if (m.shared.in.weight.defined()) out[t] += feed_forward(m.shared.in.weight, m.shared.out.weight, x[t]);
  }
  return out.view(kInput.sizes());
}

void expect_formula(const Mixture& m) {
  const at::NoGradGuard no_grad;
  for (const bool fused : {true, false}) {
    Mixture one = m;
    one.fused = fused;
    EXPECT_LE(relative_error(one(kInput, {}), expected(m)), 1e-13);
  }
}

TEST(Mixture, TopKOfTheSoftmaxNotRenormalized) {
  const Mixture m = lone_mixture({});
  expect_formula(m);
  const Token t = token_of(m, kInput[0][0]);
  EXPECT_LT(t.weights[0] + t.weights[1], 0.999);  // or the next test would show nothing
}

TEST(Mixture, Renormalized) {
  MoeConfig c;
  c.renormalize = true;
  const Mixture m = lone_mixture(c);
  expect_formula(m);
  EXPECT_GT(relative_error(m(kInput, {}), expected(lone_mixture({}))), 1e-3);
}

TEST(Mixture, SigmoidScores) {
  MoeConfig c;
  c.score = "sigmoid";
  expect_formula(lone_mixture(c));
  c.renormalize = true;
  expect_formula(lone_mixture(c));
}

TEST(Mixture, BiasDecidesWhoNotHowMuch) {
  for (const char* score : {"softmax", "sigmoid"}) {
    MoeConfig c;
    c.score = score;
    const Mixture m = lone_mixture(c, /*with_bias=*/true);
    expect_formula(m);
    const Token with = token_of(m, kInput[0][0]), without = token_of(lone_mixture(c), kInput[0][0]);
    EXPECT_NE(with.chosen, without.chosen);
    EXPECT_EQ(with.weights[0], with.scores[with.chosen[0]].item<double>());
  }
}

TEST(Mixture, SharedExpertsSeeEveryToken) {
  MoeConfig c;
  c.shared_experts = 2;
  expect_formula(lone_mixture(c));
}

TEST(Mixture, CapacityLimitsTrainingOnly) {
  MoeConfig c;
  c.capacity_factor = 0.7;  // of 8 · 2 / 5: 3 rows
  const Mixture m = lone_mixture(c);
  const at::NoGradGuard no_grad;
  RoutingReport report;
  EXPECT_LE(relative_error(m(kInput, training(&report)), expected(m, 3)), 1e-13);
  EXPECT_LE(relative_error(m(kInput, {}), expected(m)), 1e-13);
  const at::Tensor load = report.loads.at(0).slice(0, 0, 5);
  EXPECT_GT((load - 3).clamp_min(0).sum().item<double>(), 0);
  EXPECT_EQ(report.loads.at(0)[5].item<double>(), (load - 3).clamp_min(0).sum().item<double>());
}

TEST(Mixture, JitterIsForTrainingAndRepeatsItself) {
  MoeConfig c;
  c.jitter = 0.3;
  const Mixture m = lone_mixture(c);
  const at::NoGradGuard no_grad;
  EXPECT_LE(relative_error(m(kInput, {}), expected(m)), 1e-13);
  EXPECT_GT(relative_error(m(kInput, training()), expected(m)), 1e-3);
  EXPECT_TRUE(at::equal(m(kInput, training()), m(kInput, training())));
  // Rows of a batch that is split draw what they would have drawn in the whole.
  Forward second = training();
  second.row = 1;
  EXPECT_LE(relative_error(m(kInput.slice(0, 1), second), m(kInput, training()).slice(0, 1)), 1e-13);
}

TEST(Mixture, LossesAndLoadsAreTheirFormulas) {
  for (const char* score : {"softmax", "sigmoid"}) {
    MoeConfig c;
    c.score = score;
    const Mixture m = lone_mixture(c, /*with_bias=*/true);
    RoutingReport report;
    m(kInput, training(&report));
    std::vector<double> n(5, 0), p(5, 0);
    double z = 0, entropy = 0;
    for (int64_t t = 0; t < 8; ++t) {
      const Token token = token_of(m, kInput.view({8, 6})[t]);
      for (const int64_t e : token.chosen) n[static_cast<size_t>(e)] += 1;
      const double lse = token.logits.logsumexp(0).item<double>(), sum = token.scores.sum().item<double>();
      z += lse * lse / 8;
      for (int64_t e = 0; e < 5; ++e) {
        const double share = token.scores[e].item<double>() / sum;
        p[static_cast<size_t>(e)] += share / 8;
        entropy -= share * std::log(share) / 8;
      }
    }
    double balance = 0;
    for (size_t e = 0; e < 5; ++e) balance += 5 * n[e] / 16 * p[e];
    EXPECT_NEAR(report.losses.at(0)[0].item<double>(), balance, 1e-13);
    EXPECT_NEAR(report.losses.at(0)[1].item<double>(), z, 1e-12);
    for (size_t e = 0; e < 5; ++e) EXPECT_EQ(report.loads.at(0)[static_cast<int64_t>(e)].item<double>(), n[e]);
    EXPECT_EQ(report.loads.at(0)[5].item<double>(), 0);
    EXPECT_NEAR(report.loads.at(0)[6].item<double>(), entropy, 1e-13);
    EXPECT_FALSE(report.loads.at(0).requires_grad());
  }
}

TEST(Mixture, GradientsOfEverySwitch) {
  MoeConfig renormalized, sigmoid, limited;
  renormalized.renormalize = true, renormalized.shared_experts = 2;
  sigmoid.score = "sigmoid", sigmoid.renormalize = true;
  limited.capacity_factor = 0.7;
  for (const MoeConfig& c : {MoeConfig{}, renormalized, sigmoid, limited}) {
    const Mixture m = lone_mixture(c, c.score == "sigmoid");
    at::Tensor x = kInput.clone().set_requires_grad(true);
    NamedLeaves leaves = {{"x", x}, {"router", m.router}, {"w1", m.w1}, {"w2", m.w2}};
    if (c.shared_experts > 0) {
      leaves.emplace_back("shared_in", m.shared.in.weight);
      leaves.emplace_back("shared_out", m.shared.out.weight);
    }
    const at::Tensor g = random_normal(x.sizes(), 31);
    expect_gradients(
        [&] {
          RoutingReport report;
          const at::Tensor r = m(x, training(&report));
          return (r * g).sum() + 0.7 * report.losses.at(0)[0] + 0.3 * report.losses.at(0)[1];
        },
        leaves);
  }
}

// Under bf16 the router reads, multiplies and scores in fp32: its choice is that of the rounded input, nothing coarser.
TEST(Mixture, RouterWorksInFp32UnderBf16) {
  Mixture low = lone_mixture({});
  const at::NoGradGuard no_grad;
  low.router = low.router.to(at::kFloat);
  low.w1 = low.w1.to(at::kBFloat16), low.w2 = low.w2.to(at::kBFloat16);
  const at::Tensor x = kInput.to(at::kBFloat16);
  Forward f;
  at::Tensor logits;
  f.probe = [&](const std::string&, const at::Tensor& t) { logits = t; };
  EXPECT_EQ(low(x, f).scalar_type(), at::kBFloat16);
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  const at::Tensor exact = at::matmul(x.to(at::kDouble).view({8, 6}), low.router.to(at::kDouble).t());
  EXPECT_LE(relative_error(logits, exact), 1e-6);
}

// Sigmoids of logits far below 0 are all 0 in the end: nobody's weight, not nonsense.
TEST(Mixture, VanishingSigmoidsStayFinite) {
  MoeConfig c;
  c.score = "sigmoid", c.renormalize = true;
  Mixture m = lone_mixture(c);
  const at::NoGradGuard no_grad;
  m.router = at::full({5, 6}, -1e4, at::kDouble);
  RoutingReport report;
  EXPECT_EQ(m(kInput.abs(), training(&report)).abs().max().item<double>(), 0);
  EXPECT_TRUE(at::isfinite(report.losses.at(0)).all().item<bool>());
}

TEST(Mixture, BiasMovesTowardsTheMean) {
  at::Tensor bias = at::zeros({4}, at::kFloat);
  move_bias(bias, at::tensor({0.0, 10.0, 5.0, 5.0}, at::kDouble), 0.25);
  EXPECT_TRUE(at::equal(bias, at::tensor({0.25F, -0.25F, 0.0F, 0.0F})));
}

}  // namespace
}  // namespace siamese
