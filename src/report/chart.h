// A line chart as an HTML figure: heading, legend, inline SVG. Colours and fonts come from the page's style sheet.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/curve.h"

namespace siamese {

struct Series {
  std::string label;
  Curve points;
  size_t style = 0;  // colour and marker; the same run keeps its number in every chart
};

struct ChartOptions {
  std::string id{};     // unique in the page, letters and digits
  std::string title{};  // "Training loss"
  std::string note{};   // a few words beside the title, may be empty
  std::string x_title = "step";
  std::string y_title{};
  bool log_y = false;
  bool clip = false;     // let extremes leave the chart at the top instead of squashing the rest
  double smoothing = 0;  // window of the moving average as a share of the run; 0 draws the values as they are
  int height = 340;      // of the drawing, whose width is kChartWidth
};

inline constexpr int kChartWidth = 640;
inline constexpr size_t kChartPoints = 600;  // per line at most; more than a screen can show
inline constexpr size_t kChartColours = 8;   // s0 … s7 in the style sheet; later series repeat them dashed

/// The figure, or "" when no series has a point that can be drawn.
std::string render_chart(const std::vector<Series>& series, const ChartOptions& options);

}  // namespace siamese
