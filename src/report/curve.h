// What happens to a run's numbers before they are drawn: fewer points, less noise, a range that one bad run cannot
// spoil.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "report/axis.h"

namespace siamese {

/// (step, value), steps ascending. A value that is not finite is a gap.
using Curve = std::vector<std::pair<double, double>>;

/// The values as the axis measures them: log10 on a logarithmic axis. What cannot be drawn becomes NaN.
Curve to_axis_space(const Curve& curve, bool log);

/// At most `limit` points: the lowest and the highest value of every bucket, so that no spike is lost.
Curve envelope(const Curve& curve, size_t limit);

/// At most `limit` points: the mean of every bucket, then a moving average over `window` · the number of buckets.
Curve smoothed(const Curve& curve, double window, size_t limit);

/// A range that shows every curve. With `clip` it leaves out what would squash the rest: a run's own extremes (its
/// steep first steps, spikes) when they reach further than `tolerance` times its usual spread, and runs that climb far
/// above the calmest one. Every run's lowest value stays inside. Curves without a finite value count for nothing.
std::optional<Range> value_range(const std::vector<Curve>& curves, bool clip, double tolerance);

/// Indices of the points above `top` that come straight after one at or below it.
std::vector<size_t> exits(const Curve& curve, double top);

/// First step of the non-finite stretch that ends the curve, if it ends in one.
std::optional<double> lost_at(const Curve& curve);

}  // namespace siamese
