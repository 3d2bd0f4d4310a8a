// Which image stands where in a run: a pure function, so that resuming needs no state.
#pragma once

#include <cstdint>

#include "data/permutation.h"
#include "util/philox.h"

namespace siamese {

class SampleOrder {
 public:
  SampleOrder(int64_t count, uint64_t seed, bool shuffle) : count_(count), seed_(seed), shuffle_(shuffle) {}

  /// The image at place `place` of the run, or the `behind`-th after it in the same epoch's order, which closes to a
  /// ring: those take the place of images that cannot be read.
  int64_t at(int64_t place, int64_t behind = 0) const {
    const int64_t epoch = place / count_, within = (place % count_ + behind) % count_;
    if (!shuffle_) return within;
    const RandomKey key(seed_, static_cast<uint64_t>(epoch), kImageOrder);
    return static_cast<int64_t>(permute(static_cast<uint64_t>(within), static_cast<uint64_t>(count_), key));
  }

 private:
  int64_t count_;
  uint64_t seed_;
  bool shuffle_;
};

}  // namespace siamese
