#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "report/markup.h"
#include "report/plot.h"

namespace siamese {
namespace {

constexpr double kLabelHalf = 16;         // of a tick label, beyond the plot's right margin
constexpr double kExitMarkDistance = 14;  // nearer ones merge into one

std::string style_class(size_t style) {
  return fmt::format("s{}{}", style % kChartColours, style >= kChartColours ? " again" : "");
}

// Shape as well as colour tells runs apart; five shapes and eight colours do not repeat together before forty runs.
std::string marker(size_t style, double x, double y) {
  static constexpr std::array kShapes = {"m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", "m-4 -4h8v8h-8z",
                                         "m0 -5.2l5 8.6h-10z", "m0 -5.6l5.6 5.6l-5.6 5.6l-5.6 -5.6z",
                                         "m0 5.2l5 -8.6h-10z"};
  return fmt::format(R"(<path class="mark {}" d="M{:.1f} {:.1f}{}"/>)", style_class(style), x, y,
                     kShapes[style % kShapes.size()]);
}

// "M…L…": a new M after every gap. A point on its own gets a stroke of no length, which round caps turn into a dot.
std::string path_data(const Curve& curve, const Plot& plot, double precision) {
  std::string data;
  const auto finite = [&](size_t i) { return i < curve.size() && std::isfinite(curve[i].second); };
  const auto round = [&](double value) { return std::round(value * precision) / precision; };
  for (size_t i = 0; i < curve.size(); ++i) {
    if (!finite(i)) continue;
    const bool begins = i == 0 || !finite(i - 1);
    fmt::format_to(std::back_inserter(data), "{}{:g} {:g}", begins ? 'M' : 'L', round(plot.px(curve[i].first)),
                   round(plot.py(curve[i].second)));
    if (begins && !finite(i + 1)) data += "h0";
  }
  return data;
}

std::string grid(const Plot& plot, const ChartOptions& options) {
  std::string out;
  const int wanted = options.height >= 280 ? 5 : 4;
  for (const Tick& tick : options.log_y ? log_axis(plot.y) : linear_axis(plot.y, wanted)) {
    const double y = plot.py(tick.at);
    out += fmt::format(
        R"(<path class="grid" d="M{:g} {:.1f}H{:g}"/><text x="{:g}" y="{:.1f}" dy=".35em" text-anchor="end">{}</text>)",
        plot.left, y, plot.right, plot.left - 9, y, tick.label);
  }
  const int steps = static_cast<int>(std::clamp(plot.x.high - plot.x.low, 1.0, 6.0));  // no tick at step 2.5
  for (const Tick& tick : linear_axis(plot.x, steps)) {
    const double x = plot.px(tick.at);
    const bool last = x > plot.right - kLabelHalf;  // a centred label would stick out of the drawing
    out +=
        fmt::format(R"(<path class="tick" d="M{:.1f} {:g}v5"/><text x="{:.1f}" y="{:g}" text-anchor="{}">{}</text>)", x,
                    plot.bottom, last ? kChartWidth - 1.0 : x, plot.bottom + 24, last ? "end" : "middle", tick.label);
  }
  out += fmt::format(R"(<path class="axis" d="M{:g} {:g}H{:g}"/>)", plot.left, plot.bottom, plot.right);
  out += fmt::format(R"(<text x="4" y="17">{}</text><text x="4" y="{:g}">{}</text>)", escape_markup(options.y_title),
                     plot.bottom + 24, escape_markup(options.x_title));
  return out;
}

// Where a curve leaves at the top, an arrowhead; where it ends, its marker; where it breaks off into NaN, a cross.
std::string marks(const Line& line, const Plot& plot) {
  std::string out;
  const std::string style = style_class(line.series->style);
  double previous = -INFINITY;
  for (const size_t i : exits(line.main, plot.y.high)) {
    const double x0 = plot.px(line.main[i - 1].first), y0 = plot.py(line.main[i - 1].second);
    const double x1 = plot.px(line.main[i].first), y1 = plot.py(line.main[i].second);
    const double x = x0 + (x1 - x0) * (y0 - plot.top) / (y0 - y1);  // where the drawn line meets the frame
    if (x - previous < kExitMarkDistance) continue;
    out += fmt::format(R"(<path class="exit {}" d="M{:.1f} {:g}l5.5 9h-11z"/>)", style, x, plot.top - 5);
    previous = x;
  }
  if (!plot.shows(line.last)) return out;
  const auto end =
      std::find_if(line.main.rbegin(), line.main.rend(), [](const auto& p) { return std::isfinite(p.second); });
  const double x = plot.px(end->first), y = plot.py(end->second);
  if (!line.lost) return out + marker(line.series->style, x, y);
  return out + fmt::format(R"(<path class="lost {}" d="M{:.1f} {:.1f}m-4.5 -4.5l9 9m0 -9l-9 9"/>)", style, x, y);
}

std::string last_value(const Line& line, bool log) { return format_value(log ? std::pow(10.0, line.last) : line.last); }

std::string fate(const Line& line) {
  if (line.lost) return fmt::format("not finite from step {}", format_grouped(*line.lost));
  if (line.left) return fmt::format("off the chart from step {}", format_grouped(*line.left));
  return {};
}

std::string legend(const std::vector<Line>& lines, const ChartOptions& options) {
  std::string out = "<ul class=\"legend\">\n";
  for (const Line& line : lines) {
    const std::string style = style_class(line.series->style);
    out += fmt::format(
        R"(<li><svg class="key" viewBox="0 0 30 14" aria-hidden="true"><path class="main {}" d="M2 7H28"/>{}</svg>)"
        R"(<span class="name">{}</span> <span class="value">{}</span>)",
        style, marker(line.series->style, 15, 7), escape_markup(line.series->label),
        line.lost ? "–" : last_value(line, options.log_y));
    const std::string text = fate(line);
    if (!text.empty()) out += fmt::format(R"( <span class="fate">{}</span>)", text);
    out += "</li>\n";
  }
  return out + "</ul>\n";
}

// The picture in words, for readers who do not see it.
std::string spoken(const std::vector<Line>& lines, const ChartOptions& options) {
  std::string out = fmt::format("Line chart: {} over {}.", options.title, options.x_title);
  for (const Line& line : lines) {
    const std::string text = fate(line);
    out +=
        fmt::format(" {}: {}{}{}.", line.series->label, line.lost ? "" : "ends at " + last_value(line, options.log_y),
                    line.lost || text.empty() ? "" : ", ", text);
  }
  return out;
}

std::string drawing(const Plot& plot, const ChartOptions& options) {
  std::string out = fmt::format(R"(<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}" )"
                                R"(data-frame="{:g} {:g} {:g} {:g}" data-range="{} {} {} {}"{}>)",
                                kChartWidth, options.height, escape_markup(spoken(plot.lines, options)), plot.left,
                                plot.top, plot.right, plot.bottom, plot.x.low, plot.x.high, plot.y.low, plot.y.high,
                                options.log_y ? R"( data-log="1")" : "");
  out += fmt::format(R"(<clipPath id="{}"><rect x="{:g}" y="{:g}" width="{:g}" height="{:g}"/></clipPath>)", options.id,
                     plot.left, plot.top, plot.right - plot.left + 2, plot.bottom - plot.top);
  out += "\n" + grid(plot, options) + fmt::format("\n<g clip-path=\"url(#{})\">\n", options.id);
  if (options.smoothing > 0) {
    for (const Line& line : plot.lines) {
      out += fmt::format("<path class=\"raw {}\" d=\"{}\"/>\n", style_class(line.series->style),
                         path_data(envelope(line.raw, kChartPoints), plot, 10));
    }
  }
  for (const Line& line : plot.lines) {
    out += fmt::format("<path class=\"main {}\" d=\"{}\"/>\n", style_class(line.series->style),
                       path_data(line.main, plot, 100));
  }
  out += "</g>\n";
  for (const Line& line : plot.lines) out += marks(line, plot);
  out +=
      fmt::format("\n<g class=\"cursor\"><path d=\"M0 {:g}V{:g}\"/><text y=\"17\"></text></g>", plot.top, plot.bottom);
  return out + "</svg>\n";
}

}  // namespace

std::string render_chart(const std::vector<Series>& series, const ChartOptions& options) {
  const Plot plot = make_plot(series, options);
  if (plot.lines.empty()) return {};
  const std::string note = options.note.empty() ? "" : fmt::format(" <span>{}</span>", escape_markup(options.note));
  return fmt::format("<figure>\n<figcaption><h3>{}</h3>{}</figcaption>\n{}{}</figure>\n", escape_markup(options.title),
                     note, legend(plot.lines, options), drawing(plot, options));
}

}  // namespace siamese
