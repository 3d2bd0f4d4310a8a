#include <fmt/format.h>

#include <algorithm>

#include "report/chart.h"
#include "report/markup.h"
#include "report/mixture_charts.h"
#include "report/page_assets.h"
#include "report/report.h"
#include "report/table.h"

namespace siamese {
namespace {

constexpr double kSmoothing = 0.04;
constexpr int kSmallHeight = 220;

std::string render_summary(const Table& table) {
  if (table.empty()) return {};
  const std::vector<bool> numeric = numeric_columns(table);
  std::vector<std::vector<bool>> best(table.size(), std::vector<bool>(numeric.size(), false));
  bool any_best = false;
  for (size_t column = 0; column < numeric.size(); ++column) {
    for (const size_t row : best_rows(table, column)) best[row][column] = any_best = true;
  }
  std::string out = "<div class=\"scroll\"><table>\n";
  for (size_t row = 0; row < table.size(); ++row) {
    out += row == 0 ? "<thead><tr>" : row == 1 ? "<tbody>\n<tr>" : "<tr>";
    for (size_t column = 0; column < numeric.size(); ++column) {
      const std::string_view cell = column < table[row].size() ? std::string_view(table[row][column]) : "";
      const std::string_view tag = row == 0 ? "th" : "td";
      const std::string_view style = best[row][column] ? " class=\"number best\""
                                     : numeric[column] ? " class=\"number\""
                                                       : "";
      out += fmt::format("<{}{}{}>{}</{}>", tag, row == 0 ? " scope=\"col\"" : "", style, escape_markup(cell), tag);
    }
    out += row == 0 ? "</tr></thead>\n" : "</tr>\n";
  }
  out += table.size() > 1 ? "</tbody>\n</table></div>\n" : "</table></div>\n";
  return any_best ? out + "<p class=\"hint\"><b>Marked</b>: the best value of its column.</p>\n" : out;
}

bool starts_with(const Curve& longer, const Curve& shorter) {
  return shorter.size() <= longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// Runs of one comparison mostly share a schedule. Drawn over each other they would look like the last one only.
std::vector<Series> collect_schedules(const std::vector<RunCurves>& runs) {
  if (runs.size() < 2) return series_of(runs, &RunCurves::lr);
  const auto longest = std::max_element(
      runs.begin(), runs.end(), [](const RunCurves& a, const RunCurves& b) { return a.lr.size() < b.lr.size(); });
  const bool shared =
      std::all_of(runs.begin(), runs.end(), [&](const RunCurves& run) { return starts_with(longest->lr, run.lr); });
  if (!shared) return series_of(runs, &RunCurves::lr);
  constexpr size_t kSlate = 6;  // a colour of no run, unless there are seven
  return {{"all runs", longest->lr, kSlate}};
}

/// Side by side, each under its caption, pixels kept sharp.
std::string render_pictures(const std::vector<std::pair<std::string, std::string>>& pictures) {
  std::string out;
  for (const auto& [caption, png] : pictures)
    out += fmt::format(
        "<figure style=\"display:inline-block;margin:0 1.5em 1em 0;vertical-align:top\"><img style=\"image-rendering:"
        "pixelated;max-width:100%;min-width:20em\" alt=\"{0}\" src=\"data:image/png;base64,{1}\"><figcaption>{0}"
        "</figcaption></figure>\n",
        escape_markup(caption), base64(png));
  return out.empty() ? out : "<section>\n<h2>Pictures</h2>\n" + out + "</section>\n";
}

std::string render_charts(const std::vector<RunCurves>& runs) {
  const char* const thin_and_thick = "thin: as logged, thick: moving average";
  ChartOptions loss{.id = "loss", .title = "Training loss", .note = thin_and_thick, .y_title = "loss"};
  loss.clip = true;
  loss.smoothing = kSmoothing;
  ChartOptions validation{.id = "validation", .title = "Validation loss", .y_title = "loss"};
  validation.clip = true;
  ChartOptions norm{.id = "norm", .title = "Gradient norm", .note = "log scale", .y_title = "norm"};
  norm.log_y = norm.clip = true;
  norm.smoothing = kSmoothing;
  const ChartOptions accuracy{.id = "accuracy", .title = "Accuracy", .y_title = "accuracy"};
  const ChartOptions solved{.id = "exact", .title = "Exact match on held-out problems", .y_title = "share"};
  ChartOptions speed{.id = "speed", .title = "Throughput", .y_title = "tokens/s"};
  speed.smoothing = kSmoothing;
  ChartOptions pictures{.id = "images", .title = "Throughput", .y_title = "images/s"};
  pictures.smoothing = kSmoothing;
  ChartOptions rate{.id = "rate", .title = "Learning rate", .y_title = "rate"};
  rate.height = kSmallHeight;

  const std::string correct = render_chart(series_of(runs, &RunCurves::accuracy), accuracy);
  // Two columns: beside the gradient norm stands a chart as high as it, the small ones come last.
  if (!correct.empty()) speed.height = kSmallHeight;
  return render_chart(series_of(runs, &RunCurves::loss), loss) +
         render_chart(series_of(runs, &RunCurves::validation_loss), validation) +
         render_chart(series_of(runs, &RunCurves::grad_norm), norm) + correct +
         render_chart(series_of(runs, &RunCurves::exact_match), solved) +
         render_chart(series_of(runs, &RunCurves::tokens_per_s), speed) +
         render_chart(series_of(runs, &RunCurves::images_per_s), pictures) +
         render_chart(collect_schedules(runs), rate);
}

}  // namespace

std::string render_html(const Report& report) {
  const std::string title = escape_markup(report.title);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{}</style>\n"
      "</head>\n<body>\n<h1>{}</h1>\n",
      title, kPageStyle, title);
  if (!report.lead.empty()) out += fmt::format("<p class=\"lead\">{}</p>\n", escape_markup(report.lead));
  out += render_summary(report.summary);
  const std::string charts = render_charts(report.runs);
  if (!charts.empty())
    out += fmt::format(
        "<h2>Curves</h2>\n<p class=\"hint\">Beside each name: its last value. Point at a chart to read "
        "others.</p>\n<div class=\"charts\">\n{}</div>\n",
        charts);
  out += render_mixtures(report.runs);
  out += render_pictures(report.pictures);
  for (const auto& [heading, text] : report.texts) {
    out += fmt::format("<section>\n<h2>{}</h2>\n<pre tabindex=\"0\">{}</pre>\n</section>\n", escape_markup(heading),
                       escape_markup(text));
  }
  if (!charts.empty()) out += fmt::format("<script>{}</script>\n", kPageScript);
  return out + "</body>\n</html>\n";
}

}  // namespace siamese
