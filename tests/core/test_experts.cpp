// The experts' rows and their computation: against a loop over tokens, finite differences, and the plain path.
#include "ops/experts.h"

#include "gradcheck.h"
#include "tiny.h"

namespace siamese {
namespace {

constexpr int64_t kTokens = 7, kExperts = 5, kTop = 2, kWidth = 6, kHidden = 8;

/// Expert 3 gets nothing.
at::Tensor chosen() { return at::tensor({0, 1, 1, 0, 2, 4, 0, 2, 4, 1, 0, 4, 1, 2}, at::kLong).view({kTokens, kTop}); }

struct Case {
  at::Tensor x, weights, w1, w2;
  Activation kind;

  explicit Case(Activation activation = Activation::swiglu, at::ScalarType dtype = at::kDouble) : kind(activation) {
    const auto leaf = [&](at::IntArrayRef shape, int64_t number, at::ScalarType type) {
      return random_normal(shape, number).to(type).set_requires_grad(true);
    };
    x = leaf({kTokens, kWidth}, 1, dtype);
    weights = leaf({kTokens, kTop}, 2, dtype == at::kDouble ? at::kDouble : at::kFloat);
    w1 = leaf({kExperts, kHidden, kWidth}, 3, dtype);
    w2 = leaf({kExperts, kWidth, kind == Activation::swiglu ? kHidden / 2 : kHidden}, 4, dtype);
  }
  at::Tensor run(const ExpertRows& rows, bool fused = true) const {
    return experts(x, rows, weights, w1, w2, kind, fused);
  }
  /// Token by token, expert by expert; `dropped` slots add nothing.
  at::Tensor expected(const at::Tensor& who, const std::vector<int64_t>& dropped = {}) const {
    at::Tensor out = at::zeros_like(x);
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t j = 0; j < kTop; ++j) {
        if (std::find(dropped.begin(), dropped.end(), t * kTop + j) != dropped.end()) continue;
        const int64_t e = who[t][j].item<int64_t>();
        out[t] += weights[t][j] * at::mv(w2[e], activate_plain(at::mv(w1[e], x[t]), kind));
      }
    return out;
  }
};

TEST(ExpertRows, AreSortedByExpertThenByToken) {
  const ExpertRows rows = expert_rows(chosen(), kExperts);
  EXPECT_TRUE(at::equal(rows.load, at::tensor({4, 4, 3, 0, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(rows.counts, rows.load));
  EXPECT_TRUE(at::equal(rows.token, at::tensor({0, 1, 3, 5, 0, 1, 4, 6, 2, 3, 6, 2, 4, 5}, at::kLong)));
  EXPECT_TRUE(at::equal(rows.token, rows.slot.div(kTop, "floor")));
  EXPECT_TRUE(at::equal(rows.place.index_select(0, rows.slot), at::arange(kTokens * kTop)));
}

TEST(ExpertRows, CapacityDropsTheLastTokensOfAnExpert) {
  const ExpertRows rows = expert_rows(chosen(), kExperts, 3);
  EXPECT_TRUE(at::equal(rows.load, at::tensor({4, 4, 3, 0, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(rows.counts, at::tensor({3, 3, 3, 0, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(rows.token, at::tensor({0, 1, 3, 0, 1, 4, 2, 3, 6, 2, 4, 5}, at::kLong)));
  EXPECT_EQ(rows.place[10].item<int64_t>(), -1);  // token 5 at expert 0
  EXPECT_EQ(rows.place[12].item<int64_t>(), -1);  // token 6 at expert 1
  EXPECT_EQ((rows.place < 0).sum().item<int64_t>(), 2);
}

TEST(Experts, AreTheSumOverTokensAndExperts) {
  for (const Activation kind : {Activation::swiglu, Activation::gelu, Activation::gelu_tanh}) {
    const Case c(kind);
    const at::NoGradGuard no_grad;
    for (const bool fused : {true, false}) {
      EXPECT_LE(relative_error(c.run(expert_rows(chosen(), kExperts), fused), c.expected(chosen())), 1e-14);
      EXPECT_LE(relative_error(c.run(expert_rows(chosen(), kExperts, 3), fused), c.expected(chosen(), {10, 12})),
                1e-14);
    }
  }
}

TEST(Experts, GradientsAgreeWithFiniteDifferences) {
  for (const Activation kind : {Activation::swiglu, Activation::gelu})
    for (const int64_t capacity : {0, 3})
      for (const bool fused : {true, false}) {
        const Case c(kind);
        const ExpertRows rows = expert_rows(chosen(), kExperts, capacity);
        const at::Tensor g = random_normal({kTokens, kWidth}, 9);
        expect_gradients([&] { return (c.run(rows, fused) * g).sum(); },
                         {{"x", c.x}, {"weights", c.weights}, {"w1", c.w1}, {"w2", c.w2}});
      }
}

TEST(Experts, FusedAndPlainAgreeInEveryType) {
  for (const auto& [type, bound] : {std::pair{at::kDouble, 1e-13}, {at::kFloat, 1e-5}, {at::kBFloat16, 3e-2}}) {
    const Case c(Activation::swiglu, type);
    const ExpertRows rows = expert_rows(chosen(), kExperts, 3);
    const at::Tensor g = random_normal({kTokens, kWidth}, 9).to(type);
    const auto results = [&](bool fused) {
      const at::Tensor r = c.run(rows, fused);
      EXPECT_EQ(r.scalar_type(), type);
      auto all = torch::autograd::grad({r}, {c.x, c.weights, c.w1, c.w2}, {g});
      all.push_back(r);
      return all;
    };
    const auto a = results(true), b = results(false);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_error(a[i], b[i]), bound) << i << " " << type;
  }
}

// An expert without rows has a gradient of zeros, not garbage.
TEST(Experts, IdleExpertsHaveZeroGradients) {
  const Case c;
  const auto grads = torch::autograd::grad({c.run(expert_rows(chosen(), kExperts)).sum()}, {c.w1, c.w2});
  for (const at::Tensor& g : grads) {
    EXPECT_EQ(g[3].abs().max().item<double>(), 0);
    EXPECT_GT(g[0].abs().max().item<double>(), 0);
  }
}

TEST(Experts, NoTokensGiveNoRows) {
  const Case c;
  const at::NoGradGuard no_grad;
  const ExpertRows rows = expert_rows(at::zeros({0, kTop}, at::kLong), kExperts);
  for (const bool fused : {true, false})
    EXPECT_EQ(experts(c.x.slice(0, 0, 0), rows, c.weights.slice(0, 0, 0), c.w1, c.w2, c.kind, fused).numel(), 0);
}

// Enough rows for several threads and for oneDNN's products.
TEST(Experts, RepeatThemselvesDigitForDigit) {
  const at::Tensor x = random_normal({1000, 32}, 1).to(at::kFloat).set_requires_grad(true),
                   w1 = random_normal({4, 64, 32}, 2).to(at::kFloat).set_requires_grad(true),
                   w2 = random_normal({4, 32, 32}, 3).to(at::kFloat).set_requires_grad(true),
                   weights = random_normal({1000, 2}, 4).to(at::kFloat).set_requires_grad(true);
  const at::Tensor who = random_ids(1000, 2, 4);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor r = experts(x, expert_rows(who, 4), weights, w1, w2, Activation::swiglu);
    auto all = torch::autograd::grad({r.square().sum()}, {x, weights, w1, w2});
    all.push_back(r);
    at::set_num_threads(1);
    return all;
  };
  const auto one = run(1), a = run(2), b = run(2);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i], b[i])) << i;
    EXPECT_LE(relative_error(a[i], one[i]), 1e-5) << i;  // LibTorch's products may split sums among threads
  }
}

}  // namespace
}  // namespace siamese
