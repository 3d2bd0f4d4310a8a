// A row of random choices from one key, for generators that need an unknown number of them.
#pragma once

#include <cstdint>
#include <iterator>

#include "util/philox.h"

namespace siamese {

class Draws {
 public:
  explicit Draws(const RandomKey& key) : key_(key) {}

  /// 32 random bits.
  uint32_t word() {
    if (used_ % 4 == 0) words_ = key_.words(used_ / 4);  // one Philox call serves four draws
    return words_.v[used_++ % 4];
  }

  /// Whole number in [0, n).
  uint32_t below(uint32_t n) { return siamese::below(word(), n); }

  /// An element of a table, all equally likely.
  template <class Table>
  const auto& pick(const Table& table) {
    return table[below(static_cast<uint32_t>(std::size(table)))];
  }

 private:
  RandomKey key_;
  uint64_t used_ = 0;
  Philox4 words_{};
};

}  // namespace siamese
