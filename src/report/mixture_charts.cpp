#include "report/mixture_charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/heatmap.h"

namespace siamese {

std::vector<Series> series_of(const std::vector<RunCurves>& runs, Curve RunCurves::*curve) {
  std::vector<Series> series;
  for (size_t i = 0; i < runs.size(); ++i) series.push_back({runs[i].label, runs[i].*curve, i});
  return series;
}

namespace {

/// Nothing was dropped: a line at 0 is no news.
bool all_zero(const std::vector<Series>& series) {
  return std::all_of(series.begin(), series.end(), [](const Series& s) {
    return std::all_of(s.points.begin(), s.points.end(), [](const auto& point) { return point.second == 0; });
  });
}

}  // namespace

std::string render_mixtures(const std::vector<RunCurves>& runs) {
  struct Row {
    const char *id, *title, *note, *y_title;
    Curve RunCurves::*curve;
  };
  static const Row kRows[] = {
      {"balance", "Balance loss", "1 is even", "loss", &RunCurves::balance_loss},
      {"routerz", "Router logsumexp²", "", "mean", &RunCurves::router_z},
      {"entropy", "Router entropy", "1 is undecided", "share of ln E", &RunCurves::router_entropy},
      {"least", "Least busy expert", "of any block, a step", "of the mean", &RunCurves::load_min},
      {"most", "Most busy expert", "of any block, a step", "of the mean", &RunCurves::load_max},
      {"dead", "Experts without a token", "of all blocks, a step", "experts", &RunCurves::dead_experts},
      {"dropped", "Dropped assignments", "", "share", &RunCurves::dropped}};
  constexpr double kSmoothing = 0.04;
  constexpr int kHeight = 220;
  std::string out;
  for (const Row& row : kRows) {
    ChartOptions options{.id = row.id, .title = row.title, .note = row.note, .y_title = row.y_title};
    options.smoothing = kSmoothing;
    options.height = kHeight;
    const std::vector<Series> series = series_of(runs, row.curve);
    if (row.curve != &RunCurves::dropped || !all_zero(series)) out += render_chart(series, options);
  }
  for (const RunCurves& run : runs) out += render_heatmap(run.load, run.label);
  return out.empty() ? out : fmt::format("<h2>Experts</h2>\n<div class=\"charts\">\n{}</div>\n", out);
}

}  // namespace siamese
