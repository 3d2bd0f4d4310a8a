// permute: a bijection of [0, n), different for every key, and without visible bias.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <vector>

#include "data/permutation.h"
#include "util/error.h"

namespace siamese {
namespace {

std::vector<uint64_t> order(uint64_t n, const RandomKey& key) {
  std::vector<uint64_t> list;
  for (uint64_t i = 0; i < n; ++i) list.push_back(permute(i, n, key));
  return list;
}

void expect_bijection(uint64_t n, const RandomKey& key) {
  std::vector<bool> seen(n);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t x = permute(i, n, key);
    ASSERT_LT(x, n);
    ASSERT_FALSE(seen[x]) << "n " << n << " index " << i;
    seen[x] = true;
  }
}

TEST(Permutation, IsABijectionForEverySmallN) {
  for (uint64_t n = 1; n <= 300; ++n) expect_bijection(n, RandomKey(n, 0, kDataOrder));
}

TEST(Permutation, IsABijectionAroundPowersOfTwo) {
  for (const uint64_t n : {1023, 1024, 1025, 4095, 4096, 4097, 16384, 16385, 50000}) {
    expect_bijection(n, RandomKey(3, n, kDataOrder));
  }
}

TEST(Permutation, HandlesHugeN) {
  const RandomKey key(1, 0, kDataOrder);
  for (const uint64_t n : {uint64_t{1} << 40, (uint64_t{1} << 62) + 1, uint64_t{1} << 63}) {
    EXPECT_LT(permute(0, n, key), n);
    EXPECT_LT(permute(n - 1, n, key), n);
    EXPECT_NE(permute(0, n, key), permute(n - 1, n, key));
  }
}

TEST(Permutation, DependsOnEverythingInTheKey) {
  const auto first = order(100, RandomKey(1, 0, kDataOrder));
  EXPECT_EQ(first, order(100, RandomKey(1, 0, kDataOrder)));
  EXPECT_NE(first, order(100, RandomKey(2, 0, kDataOrder)));
  EXPECT_NE(first, order(100, RandomKey(1, 1, kDataOrder)));
  EXPECT_NE(first, order(100, RandomKey(1, 0, kDataText)));
}

// All n! orders of few elements occur about equally often. χ² with k cells has mean k - 1 and deviation √(2(k - 1));
// the bound is five deviations above, and the keys are fixed, so this cannot fail by chance.
TEST(Permutation, AllOrdersOfFewElementsAreEquallyLikely) {
  for (const uint64_t n : {2, 3, 4}) {
    std::map<std::vector<uint64_t>, int> counts;
    const int keys = 24000;
    for (int seed = 0; seed < keys; ++seed) ++counts[order(n, RandomKey(static_cast<uint64_t>(seed), 0, kTestSite))];
    const double cells = n == 2 ? 2 : n == 3 ? 6 : 24;
    ASSERT_EQ(static_cast<double>(counts.size()), cells);
    double chi2 = 0;
    for (const auto& [list, count] : counts) chi2 += (count - keys / cells) * (count - keys / cells) / (keys / cells);
    EXPECT_LT(chi2, cells - 1 + 5 * std::sqrt(2 * (cells - 1))) << "n " << n;
  }
}

TEST(Permutation, NeighboursLandFarApart) {
  const RandomKey key(5, 0, kDataOrder);
  const uint64_t n = 10000;
  int near = 0;  // for a random order about 2·10/n of the steps are shorter than 10: some 20
  for (uint64_t i = 0; i + 1 < n; ++i) {
    const int64_t step = static_cast<int64_t>(permute(i + 1, n, key)) - static_cast<int64_t>(permute(i, n, key));
    near += std::abs(step) < 10 ? 1 : 0;
  }
  EXPECT_LT(near, 50);
}

TEST(Permutation, RefusesAnIndexOutside) {
  const RandomKey key(1, 0, kDataOrder);
  EXPECT_THROW(permute(5, 5, key), Error);
  EXPECT_THROW(permute(0, 0, key), Error);
}

}  // namespace
}  // namespace siamese
