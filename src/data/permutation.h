// Random order without memory: the place of one element is computed, not looked up.
#pragma once

#include <cstdint>

#include "util/philox.h"

namespace siamese {

/// A bijection of [0, n) chosen by `key`: the element that stands at place `index`. Resuming at any place costs
/// nothing. Draws from groups of `key` at and above 2^32; elements below that stay free for the caller. n ≤ 2^63.
uint64_t permute(uint64_t index, uint64_t n, const RandomKey& key);

}  // namespace siamese
