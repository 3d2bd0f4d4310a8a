#include "report/plot.h"

#include <algorithm>
#include <cmath>

namespace siamese {
namespace {

// Room around the plot. The style sheet enlarges the text on a phone, so there is some to spare.
constexpr double kLeft = 60, kRight = 18, kTop = 34, kBottom = 34;
constexpr double kMargin = 0.04;                             // of the value range, above and below
constexpr double kLogDecades = 8;                            // more would flatten everything that matters
constexpr double kLinearTolerance = 0.5, kLogTolerance = 3;  // see value_range; spikes are at home on a log axis

std::optional<Line> make_line(const Series& series, const ChartOptions& options) {
  Line line;
  line.series = &series;
  line.raw = to_axis_space(series.points, options.log_y);
  line.main = options.smoothing > 0 ? smoothed(line.raw, options.smoothing, kChartPoints / 2)
                                    : envelope(line.raw, kChartPoints);
  line.lost = lost_at(line.raw);
  bool any = false;
  for (const auto& [step, value] : line.main) {
    if (!std::isfinite(value)) continue;
    line.last = value;
    any = true;
  }
  return any ? std::optional(line) : std::nullopt;
}

// Judged by the values as logged: the moving average sees a divergence coming a little early.
std::optional<double> left_at(const Curve& raw, double top) {
  std::optional<double> left;
  for (const auto& [step, value] : raw) {
    if (value <= top) {
      left.reset();
    } else if (value > top && !left) {
      left = step;
    }
  }
  return left;
}

Range with_margin(Range range, bool linear) {
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low <= 1e-9 * size) {  // a constant, or all zero
    const double half = size > 0 ? 0.1 * size : 1;
    return {range.low - half, range.high + half};
  }
  const double margin = kMargin * (range.high - range.low);
  const double low = range.low - margin;
  // A margin must not suggest that a loss could be negative.
  return {linear && range.low >= 0 ? std::max(low, 0.0) : low, range.high + margin};
}

}  // namespace

double Plot::px(double step) const { return left + (step - x.low) / (x.high - x.low) * (right - left); }

double Plot::py(double value) const {
  const double height = bottom - top;
  const double at = bottom - (value - y.low) / (y.high - y.low) * height;
  // The clip path cuts at the frame; far beyond it a diverged run's coordinates would only be long numbers.
  return std::clamp(at, top - 4 * height, bottom + 4 * height);
}

Plot make_plot(const std::vector<Series>& series, const ChartOptions& options) {
  Plot plot;
  plot.left = kLeft;
  plot.top = kTop;
  plot.right = kChartWidth - kRight;
  plot.bottom = options.height - kBottom;
  for (const Series& one : series) {
    if (auto line = make_line(one, options)) plot.lines.push_back(std::move(*line));
  }
  if (plot.lines.empty()) return plot;
  std::vector<Curve> curves;
  plot.x = {INFINITY, -INFINITY};
  for (const Line& line : plot.lines) {
    curves.push_back(line.raw);
    plot.x.low = std::min(plot.x.low, line.raw.front().first);
    plot.x.high = std::max(plot.x.high, line.raw.back().first);
  }
  if (plot.x.high <= plot.x.low) plot.x = {plot.x.low - 1, plot.x.low + 1};
  plot.y = *value_range(curves, options.clip, options.log_y ? kLogTolerance : kLinearTolerance);
  if (options.log_y) plot.y.low = std::max(plot.y.low, plot.y.high - kLogDecades);
  plot.y = with_margin(plot.y, !options.log_y);
  for (Line& line : plot.lines) line.left = left_at(line.raw, plot.y.high);
  return plot;
}

}  // namespace siamese
