// The distributions augmentation draws from, by their moments. Keys are fixed, so that nothing here fails by chance.
#include "images/chances.h"

#include <gtest/gtest.h>

#include <vector>

namespace siamese {
namespace {

struct Moments {
  double mean = 0, variance = 0, low = 1e9, high = -1e9;
};

template <class F>
Moments moments(int count, F draw) {
  Moments m;
  double squares = 0;
  for (int i = 0; i < count; ++i) {
    const double x = draw();
    m.mean += x / count;
    squares += x * x / count;
    m.low = std::min(m.low, x);
    m.high = std::max(m.high, x);
  }
  m.variance = squares - m.mean * m.mean;
  return m;
}

TEST(Chances, Uniform) {
  Chances chances(RandomKey(1, 0, kTestSite));
  const Moments m = moments(40000, [&] { return chances.uniform(-2, 6); });
  EXPECT_NEAR(m.mean, 2, 0.05);
  EXPECT_NEAR(m.variance, 64.0 / 12, 0.1);
  EXPECT_GT(m.low, -2);
  EXPECT_LT(m.high, 6);
}

TEST(Chances, LogUniformFavoursNoSide) {
  Chances chances(RandomKey(2, 0, kTestSite));
  const Moments m = moments(40000, [&] { return std::log(chances.log_uniform(0.75, 4.0 / 3)); });
  EXPECT_NEAR(m.mean, 0, 0.003);
  EXPECT_NEAR(m.low, std::log(0.75), 1e-3);
  EXPECT_NEAR(m.high, -std::log(0.75), 1e-3);
}

TEST(Chances, Coin) {
  Chances chances(RandomKey(3, 0, kTestSite));
  for (const double p : {0.0, 0.25, 0.5, 1.0})
    EXPECT_NEAR(moments(40000, [&] { return chances.coin(p) ? 1.0 : 0.0; }).mean, p, p * (1 - p) * 0.05 + 1e-9) << p;
}

TEST(Chances, Normal) {
  Chances chances(RandomKey(4, 0, kTestSite));
  const Moments one = moments(40000, [&] { return chances.normal(); });
  EXPECT_NEAR(one.mean, 0, 0.02);
  EXPECT_NEAR(one.variance, 1, 0.03);
  EXPECT_NEAR(moments(40000, [&] { return std::pow(chances.normal(), 4); }).mean, 3, 0.2);
}

TEST(Chances, ManyNormals) {
  Chances chances(RandomKey(5, 0, kTestSite));
  std::vector<float> values(40001);  // odd: the last one stands alone
  chances.normals(values);
  size_t next = 0;
  const Moments m = moments(40001, [&] { return values[next++]; });
  EXPECT_NEAR(m.mean, 0, 0.02);
  EXPECT_NEAR(m.variance, 1, 0.03);
  EXPECT_LT(m.high, 6);
  EXPECT_GT(m.high, 3);
  chances.normals({});
}

// Mean a/(a + b), variance ab/((a + b)²(a + b + 1)).
TEST(Chances, Beta) {
  const double pairs[][2] = {{1, 1}, {0.8, 0.8}, {0.2, 0.2}, {5, 2}, {0.5, 3}};
  for (const auto& [a, b] : pairs) {
    Chances chances(RandomKey(6, 0, kTestSite));
    const double x = a, y = b, sum = x + y;
    const Moments m = moments(40000, [&] { return chances.beta(x, y); });
    EXPECT_NEAR(m.mean, x / sum, 0.01) << x << ' ' << y;
    EXPECT_NEAR(m.variance, x * y / (sum * sum * (sum + 1)), 0.005) << x << ' ' << y;
    EXPECT_GE(m.low, 0);
    EXPECT_LE(m.high, 1);
  }
}

TEST(Chances, BetaOfTinyParametersStaysANumber) {
  Chances chances(RandomKey(7, 0, kTestSite));
  const Moments m = moments(2000, [&] { return chances.beta(1e-4, 1e-4); });
  EXPECT_NEAR(m.mean, 0.5, 0.05);  // all of it at 0 and 1
  EXPECT_NEAR(m.variance, 0.25, 0.01);
}

TEST(Chances, SameKeySameChoices) {
  const auto three = [](uint64_t seed) {
    Chances chances(RandomKey(seed, 9, kTestSite));
    return std::vector<double>{chances.uniform(), chances.normal(), chances.beta(0.8, 0.8)};
  };
  EXPECT_EQ(three(1), three(1));
  EXPECT_NE(three(1), three(2));
}

}  // namespace
}  // namespace siamese
