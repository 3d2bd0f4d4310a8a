// What a chart shows and where: the lines, fitted into a frame of drawing units.
#pragma once

#include <optional>
#include <vector>

#include "report/chart.h"

namespace siamese {

/// One series with something to draw; values in axis space.
struct Line {
  const Series* series = nullptr;
  Curve raw, main;             // as logged; what is drawn thick
  double last = 0;             // last value that can be drawn
  std::optional<double> lost;  // step from which it is not finite any more
  std::optional<double> left;  // step from which it stays above the chart
};

struct Plot {
  std::vector<Line> lines;
  double left = 0, top = 0, right = 0, bottom = 0;
  Range x, y;

  double px(double step) const;
  double py(double value) const;
  bool shows(double value) const { return value >= y.low && value <= y.high; }
};

/// The lines point into `series`. Series without a drawable point are left out; there may be no lines.
Plot make_plot(const std::vector<Series>& series, const ChartOptions& options);

}  // namespace siamese
