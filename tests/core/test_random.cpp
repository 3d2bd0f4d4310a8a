// Counter-based random numbers: Philox' published answers, the normal quantile, and what dropout and the fills promise.
#include <ATen/Parallel.h>

#include <array>
#include <set>

#include "gradcheck.h"
#include "kernels/random.h"

namespace siamese {
namespace {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t low, uint64_t high) {
  RandomKey k(0, high, 0);
  k.k0 = static_cast<uint32_t>(key);
  k.k1 = static_cast<uint32_t>(key >> 32);
  const Philox4 w = k.words(low);
  return {w.v[0], w.v[1], w.v[2], w.v[3]};
}

/// kat_vectors of Random123.
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ULL, 0x85a308d3243f6a88ULL, 0x0370734413198a2eULL),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfTheKeyCounts) {
  std::set<uint32_t> words;
  for (const uint64_t seed : {0ULL, 1ULL, 1ULL << 40})
    for (const uint64_t step : {0ULL, 1ULL, 1ULL << 40})
      for (const uint32_t site : {0U, 1U, site_at(kDropPath, 1), site_at(kDropPath, 2)})
        for (const uint64_t element : {0ULL, 1ULL, 4ULL, 1ULL << 40})
          words.insert(RandomKey(seed, step, site).word(element));
  EXPECT_EQ(words.size(), 3U * 3U * 4U * 4U);
}

TEST(Philox, RangesOfTheConversions) {
  EXPECT_EQ(uniform24(0), 0.0f);
  EXPECT_EQ(uniform24(~0U), 1.0f - 0x1p-24f);
  EXPECT_GT(uniform_open(0), 0.0);
  EXPECT_LT(uniform_open(~0U), 1.0);
  EXPECT_EQ(below(~0U, 7), 6U);
  EXPECT_EQ(below(0, 7), 0U);
}

/// Φ(quantile(p)) = p to 1e-14; a quantile that is right to 1e-15 is a p that is right to q²·1e-15 in the tails.
TEST(NormalQuantile, InvertsTheDistributionFunction) {
  double worst = 0;
  auto check = [&](double p) {
    const double q = kernels::normal_quantile(p);
    const long double back = 0.5L * erfcl(-static_cast<long double>(q) * 0.70710678118654752440084436210485L);
    const double error = static_cast<double>(fabsl(back - static_cast<long double>(p)) / static_cast<long double>(p));
    worst = std::max(worst, error / std::max(1.0, 0.1 * q * q));
    // The upper half mirrors the lower one: 1-(1-p) is p as far as 1-p holds it.
    EXPECT_TRUE(p < 0x1p-50 || kernels::normal_quantile(1.0 - p) == -kernels::normal_quantile(1.0 - (1.0 - p))) << p;
  };
  for (int i = 1; i <= 20000; ++i) check(i / 40000.0);
  for (double p = 0.5; p > 1e-300; p *= 0.83) check(p);
  for (const double border : {0.075, 0.925, std::exp(-25.0)})  // where the three rational functions meet
    for (const double step : {-1e-13, 0.0, 1e-13}) check(border * (1 + step));
  EXPECT_LE(worst, 1e-14);
  EXPECT_EQ(kernels::normal_quantile(0.5), 0.0);
  EXPECT_NEAR(kernels::normal_quantile(uniform_open(0)), -6.337957754, 1e-8);  // the farthest a draw can lie
}

TEST(TruncatedNormal, BoundsMeanAndVariance) {
  constexpr int64_t kCount = 400000;
  for (const double cutoff : {0.0, 1.0, 2.0, 3.0})
    for (const double std : {1.0, 0.02}) {
      at::Tensor t = at::empty({kCount}, at::kDouble);
      truncated_normal_(t, std, cutoff, {3, 5, kTestSite, 0});
      const double c = cutoff, density = std::exp(-0.5 * c * c) / std::sqrt(2 * M_PI);
      const double variance = c > 0 ? 1 - 2 * c * density / std::erf(c * M_SQRT1_2) : 1.0;
      const at::Tensor z = t / std;
      EXPECT_LE(z.abs().max().item<double>(), c > 0 ? c * (1 + 1e-6) : 6.34);
      EXPECT_NEAR(z.mean().item<double>(), 0.0, 5 * std::sqrt(variance / kCount)) << cutoff;
      EXPECT_NEAR(z.square().mean().item<double>(), variance, 5 * variance * std::sqrt(2.0 / kCount)) << cutoff;
      EXPECT_GT(z.abs().max().item<double>(), c > 0 ? 0.99 * c : 4.0);
    }
}

TEST(TruncatedNormal, TypesRoundTheSameDraws) {
  const Draw draw{1, 2, kTestSite, 0};
  at::Tensor exact = at::empty({999}, at::kDouble), single = at::empty({999}, at::kFloat),
             brief = at::empty({999}, at::kBFloat16);
  for (const at::Tensor& t : {exact, single, brief}) truncated_normal_(t, 0.5, 3.0, draw);
  EXPECT_TRUE(at::equal(exact, single.to(at::kDouble)));
  EXPECT_TRUE(at::equal(single.to(at::kBFloat16), brief));
}

TEST(Uniform, IsInTheHalfOpenInterval) {
  const at::Tensor u = uniform({1000, 333}, at::kCPU, {1, 2, kTestSite, 0});
  EXPECT_GE(u.min().item<float>(), 0.0f);
  EXPECT_LT(u.max().item<float>(), 1.0f);
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 5 / std::sqrt(12.0 * 333000));
  EXPECT_NEAR((u < 0.25).to(at::kDouble).mean().item<double>(), 0.25, 5 * std::sqrt(0.1875 / 333000));
}

TEST(Dropout, MeanAndFactor) {
  const at::Tensor ones = at::ones({500000}, at::kFloat);
  for (const double p : {0.1, 0.5, 0.9}) {
    const at::Tensor out = dropout(ones, p, {1, 2, kTestSite, 0});
    const double kept = (out != 0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, 1 - p, 5 * std::sqrt(p * (1 - p) / 500000)) << p;
    EXPECT_TRUE(((out == 0) | ((out - 1 / (1 - p)).abs() < 1e-5)).all().item<bool>()) << p;
  }
}

TEST(Dropout, NoProbabilityNoCopy) {
  const at::Tensor x = random_normal({5}, 1);
  EXPECT_TRUE(dropout(x, 0.0, Draw{}).is_same(x));
  EXPECT_THROW(dropout(x, 1.0, Draw{}), c10::Error);
  EXPECT_THROW(dropout(x, -0.1, Draw{}), c10::Error);
}

TEST(Dropout, BackwardDrawsTheSameMask) {
  const at::Tensor x = random_normal({7, 33}, 1).set_requires_grad(true), g = random_normal({7, 33}, 2);
  const Draw draw{4, 5, kTestSite, 12};
  const at::Tensor grad = torch::autograd::grad({dropout(x, 0.3, draw)}, {x}, {g})[0];
  EXPECT_TRUE(at::equal(grad, g * dropout(at::ones_like(g), 0.3, draw)));
  expect_gradients([&] { return (dropout(x, 0.3, draw) * g).sum(); }, {{"x", x}}, 1e-9);
  // A gradient that is not dense in memory, as sum() gives.
  const at::Tensor of_sum = torch::autograd::grad({dropout(x, 0.3, draw).sum()}, {x})[0];
  EXPECT_TRUE(at::equal(of_sum, dropout(at::ones_like(g), 0.3, draw)));
}

TEST(Dropout, LayoutDoesNotMoveTheMask) {
  const at::Tensor x = random_normal({6, 10}, 3);
  const at::Tensor columns_first = x.t().contiguous().t();
  EXPECT_TRUE(at::equal(dropout(x, 0.5, {1, 1, kTestSite, 0}), dropout(columns_first, 0.5, {1, 1, kTestSite, 0})));
}

/// Micro-batches and ranks draw what the whole batch draws, also where a row does not begin at a multiple of four.
TEST(Draws, OffsetsAreSlicesOfTheWholeBatch) {
  constexpr int64_t kRows = 9, kWidth = 7;
  const at::Tensor x = random_normal({kRows, kWidth}, 1);
  const Draw whole{1, 2, kTestSite, 0};
  const at::Tensor all = dropout(x, 0.4, whole), u = uniform({kRows, kWidth}, at::kCPU, whole);
  at::Tensor n = at::empty({kRows, kWidth}, at::kFloat);
  truncated_normal_(n, 1.0, 3.0, whole);
  for (int64_t begin = 0; begin < kRows; ++begin)
    for (const int64_t rows : {int64_t{1}, kRows - begin}) {
      const Draw part{1, 2, kTestSite, begin * kWidth};
      EXPECT_TRUE(at::equal(dropout(x.slice(0, begin, begin + rows), 0.4, part), all.slice(0, begin, begin + rows)));
      EXPECT_TRUE(at::equal(uniform({rows, kWidth}, at::kCPU, part), u.slice(0, begin, begin + rows)));
      at::Tensor m = at::empty({rows, kWidth}, at::kFloat);
      truncated_normal_(m, 1.0, 3.0, part);
      EXPECT_TRUE(at::equal(m, n.slice(0, begin, begin + rows)));
    }
}

TEST(Draws, ThreadsDoNotChangeAnyBit) {
  const int before = at::get_num_threads();
  const at::Tensor x = at::ones({3, 33333}, at::kFloat);
  const Draw draw{7, 8, kTestSite, 5};
  std::vector<at::Tensor> first;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    at::Tensor n = at::empty({3, 33333}, at::kFloat);
    truncated_normal_(n, 1.0, 2.0, draw);
    const std::vector<at::Tensor> now = {dropout(x, 0.5, draw), uniform({3, 33333}, at::kCPU, draw), n};
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(at::equal(first[i], now[i])) << i;
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace siamese
