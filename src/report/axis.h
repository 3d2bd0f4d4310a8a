// Where an axis has its ticks and what they say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace siamese {

struct Range {
  double low = 0, high = 1;
};

struct Tick {
  double at = 0;  // in axis space: log10 of the value on a logarithmic axis
  std::string label;
};

/// Multiples of 1, 2 or 5 · 10^k inside the range, about `wanted` of them. Needs low < high, both finite.
std::vector<double> nice_ticks(Range range, int wanted);

std::vector<Tick> linear_axis(Range range, int wanted);

/// Powers of ten, thinned out over many decades; over few decades also 2 · 10^k and 5 · 10^k. `range` is in log10.
std::vector<Tick> log_axis(Range range);

std::string format_value(double value);    // 4 significant digits or whole: 3.142, 12,340, 2.5e-5
std::string format_grouped(double whole);  // 12,340

}  // namespace siamese
