// The two passes of resize, on raw pointers. Weights are integers of kWeightBits binary digits, so that the result is
// the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace siamese {

/// 8 bits for the value and 2 for sums beyond 255 and below 0 remain of 32; as in Pillow.
constexpr int kWeightBits = 22;

/// `filter_columns` may read as many bytes past its last row.
constexpr int kRowPadding = 8;

/// For each output value: where its inputs begin and their weights. All have the same number of inputs, some of weight
/// 0: the loops below run faster so than with just those that matter.
struct Weights {
  int count = 0, stride = 0;    // stride: count rounded up to an even number, filled with 0
  std::vector<int> first;       // [outputs]; first + count is inside the picture
  std::vector<int32_t> values;  // [outputs, stride]
  const int32_t* of(int output) const { return &values[static_cast<size_t>(output) * stride]; }
};

/// Each of `count` rows of `length` values ([width, channels], channels 1 or 3) to [outputs, channels].
void filter_columns(const uint8_t* rows, int64_t length, int count, int channels, const Weights& weights, uint8_t* out);

/// `count` rows of `length` values to one.
void filter_rows(const uint8_t* rows, int64_t length, const int32_t* weights, int count, uint8_t* out);

}  // namespace siamese
