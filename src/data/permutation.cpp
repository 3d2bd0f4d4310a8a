#include "data/permutation.h"

#include <algorithm>
#include <bit>

#include "util/error.h"

namespace siamese {
namespace {

// Four rounds of random functions already make a strong permutation (Luby and Rackoff); tiny halves of one or two bits
// have so few functions that some more rounds are worth their price.
constexpr uint64_t kRounds = 8;

}  // namespace

// Balanced Feistel network on 2h bits, x = (L, R) with h bits each:
//
//   (L, R) → (R, L ⊕ F_r(R)),  F_r(R) = low h bits of Philox(key; r·2^32 + R),  r = 1 … rounds
//
// It is a bijection of [0, 4^h) whatever F is. 4^h is the next even power of two ≥ n; a result outside [0, n) is sent
// through again until it falls inside ("cycle walking"), which keeps the map a bijection of [0, n). As 4^h < 4n, this
// takes four passes at most on average.
uint64_t permute(uint64_t index, uint64_t n, const RandomKey& key) {
  if (index >= n) fail("permute: index {} is not below {}", index, n);
  const int half = std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t x = index;
  do {
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 1; round <= kRounds; ++round) {
      const uint64_t mixed = left ^ (key.words((round << 32) | right).v[0] & mask);
      left = right;
      right = mixed;
    }
    x = (left << half) | right;
  } while (x >= n);
  return x;
}

}  // namespace siamese
