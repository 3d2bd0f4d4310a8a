// Charts and the page: ticks, gaps, clipping, and markup that closes what it opens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "report/axis.h"
#include "report/chart.h"
#include "report/curve.h"
#include "report/report.h"

namespace siamese {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

// Whether every element in XML-like text is closed in order. Enough for our own output: no comments, no CDATA, and
// every '<' and '>' of the content is escaped.
::testing::AssertionResult balanced(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = text.find('<', at)) != text.npos; ++at) {
    const size_t end = text.find('>', at);
    if (end == text.npos) return ::testing::AssertionFailure() << "no '>' after " << text.substr(at, 40);
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (count(tag, "\"") % 2 || tag.find('<') != tag.npos) return ::testing::AssertionFailure() << "bad tag " << tag;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return ::testing::AssertionFailure() << "unexpected " << tag;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "not closed: " << open.back();
}

std::string path_of(const std::string& chart, const std::string& style) {
  const std::string start = "<path class=\"" + style + "\" d=\"";
  const size_t at = chart.find(start, chart.find("class=\"plot\"")) + start.size();
  return chart.substr(at, chart.find('"', at) - at);
}

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> result;
  for (const Tick& tick : ticks) result.push_back(tick.label);
  return result;
}

Curve falling(size_t steps, double end) {
  Curve curve;
  for (size_t i = 0; i < steps; ++i) {
    const auto step = static_cast<double>(i);
    curve.emplace_back(step, end + 8 * std::exp(-step * 20 / static_cast<double>(steps)) + 0.01 * std::sin(step));
  }
  return curve;
}

using Labels = std::vector<std::string>;

TEST(Axis, LinearTicks) {
  EXPECT_EQ(labels(linear_axis({0, 6000}, 6)), (Labels{"0", "1,000", "2,000", "3,000", "4,000", "5,000", "6,000"}));
  EXPECT_EQ(labels(linear_axis({3.02, 4.1}, 5)), (Labels{"3.2", "3.4", "3.6", "3.8", "4.0"}));
  EXPECT_EQ(labels(linear_axis({0, 6e-4}, 3)), (Labels{"0", "2e-4", "4e-4", "6e-4"}));
  EXPECT_EQ(labels(linear_axis({0, 150000}, 3)), (Labels{"0", "50k", "100k", "150k"}));
  EXPECT_EQ(labels(linear_axis({-1, 1}, 4)), (Labels{"-1.0", "-0.5", "0", "0.5", "1.0"}));
  EXPECT_LE(linear_axis({1e15, 1e15 + 4}, 5).size(), 10u);
}

TEST(Axis, LogTicks) {
  EXPECT_EQ(labels(log_axis({-4, 1})), (Labels{"1e-4", "0.001", "0.01", "0.1", "1", "10"}));
  EXPECT_EQ(labels(log_axis({-1, 0.5})), (Labels{"0.1", "0.2", "0.5", "1", "2"}));
  EXPECT_EQ(labels(log_axis({std::log10(2.5), std::log10(4.5)})), (Labels{"2.5", "3.0", "3.5", "4.0", "4.5"}));
  EXPECT_LE(log_axis({-30, 38}).size(), 8u);
}

TEST(Axis, Values) {
  EXPECT_EQ(format_value(3.14159), "3.142");
  EXPECT_EQ(format_value(0), "0");
  EXPECT_EQ(format_value(183728.4), "183,728");
  EXPECT_EQ(format_value(6e-5), "6e-5");
  EXPECT_EQ(format_value(-0.25), "-0.2500");
  EXPECT_EQ(format_value(2.5e12), "2.5e12");
}

TEST(Curves, EnvelopeKeepsSpikesAndIsShort) {
  Curve curve(100000);
  for (size_t i = 0; i < curve.size(); ++i) curve[i] = {static_cast<double>(i), 1};
  curve[54321].second = 99;
  const Curve few = envelope(curve, 600);
  EXPECT_LE(few.size(), 600u);
  EXPECT_EQ(std::count(few.begin(), few.end(), curve[54321]), 1);
  EXPECT_TRUE(std::is_sorted(few.begin(), few.end()));
  EXPECT_EQ(envelope(falling(600, 3), 600).size(), 600u);
}

TEST(Curves, SmoothingFollowsTheMeanAndKeepsGaps) {
  Curve curve;
  for (int i = 0; i < 1000; ++i) curve.emplace_back(i, i >= 400 && i < 600 ? NAN : 5 + (i % 2 ? 1 : -1));
  const Curve smooth = smoothed(curve, 0.05, 300);
  EXPECT_LE(smooth.size(), 300u);
  EXPECT_TRUE(std::isnan(smooth[150].second));
  EXPECT_NEAR(smooth[80].second, 5, 0.2);
  EXPECT_NEAR(smooth.back().second, 5, 0.2);
}

TEST(Curves, RangeIgnoresADivergingRun) {
  Curve diverging = falling(1000, 4);
  for (size_t i = 600; i < 1000; ++i) diverging[i].second = 1e6;
  const Range range = *value_range({falling(1000, 3), falling(1000, 3.2), diverging}, true, 0.5);
  EXPECT_LT(range.high, 8);
  EXPECT_GT(range.high, 4) << "the diverging run is visible until it leaves";
  EXPECT_NEAR(range.low, 3, 0.05);
  EXPECT_EQ(value_range({diverging}, false, 0.5)->high, 1e6);
  EXPECT_FALSE(value_range({{{1, NAN}}, {}}, true, 0.5));
}

TEST(Curves, RangeKeepsAWorseRunAndALateDrop) {
  const Curve better(100, {1, 2}), worse(100, {1, 20});
  EXPECT_EQ(value_range({better, worse}, true, 0.5)->high, 20);
  Curve late(100, {1, 5});
  late.back().second = 0.1;
  EXPECT_EQ(value_range({late}, true, 0.5)->low, 0.1);
}

TEST(Chart, GapsBreakTheLine) {
  ChartOptions options{.id = "x", .title = "t"};
  const std::string chart =
      render_chart({{"a", {{0, 1}, {1, 2}, {2, NAN}, {3, 1}, {4, INFINITY}, {5, 1}, {6, 2}}}}, options);
  const std::string path = path_of(chart, "main s0");
  EXPECT_EQ(count(path, "M"), 3u) << path;
  EXPECT_EQ(count(path, "L"), 2u) << path;
  EXPECT_EQ(count(path, "h0"), 1u) << "the lone point is a dot: " << path;
  EXPECT_EQ(path.find("nan"), path.npos);
}

TEST(Chart, MarksWhatLeavesAndWhatIsLost) {
  Curve diverging = falling(1000, 4), lost = falling(1000, 3.5);
  for (size_t i = 600; i < 1000; ++i) diverging[i].second = 1e6, lost[i].second = NAN;
  ChartOptions options{.id = "x", .title = "t"};
  options.clip = true;
  const std::string chart =
      render_chart({{"good", falling(1000, 3), 0}, {"up", diverging, 1}, {"nan", lost, 2}}, options);
  EXPECT_EQ(count(chart, "class=\"exit s1\""), 1u);
  EXPECT_EQ(count(chart, "class=\"exit"), 1u);
  EXPECT_EQ(count(chart, "class=\"lost s2\""), 1u);
  EXPECT_EQ(count(chart, ">off the chart from step 600<"), 1u);
  EXPECT_EQ(count(chart, ">not finite from step 600<"), 1u);
}

TEST(Chart, SmallWhateverTheRunLength) {
  ChartOptions options{.id = "x", .title = "t"};
  options.smoothing = 0.04;
  const std::string chart = render_chart({{"a", falling(200000, 3)}}, options);
  EXPECT_LE(count(path_of(chart, "raw s0"), "L"), kChartPoints);
  EXPECT_LE(count(path_of(chart, "main s0"), "L"), kChartPoints);
  EXPECT_LT(chart.size(), 30000u);
}

TEST(Chart, OddDataStaysDrawable) {
  const std::vector<Curve> odd = {{{5, 0}},
                                  {{1, 7}, {2, 7}, {3, 7}},
                                  {{1, -1e90}, {2, 1e90}},
                                  {{0, 1e-30}, {1, 1e30}},
                                  {{1e15, 1}, {1e15 + 1, 2}},
                                  {{0, 5e-324}, {1, 0}}};
  for (const bool log : {false, true}) {
    for (const Curve& curve : odd) {
      ChartOptions options{.id = "x", .title = "t"};
      options.log_y = log;
      options.clip = true;
      options.smoothing = 0.1;
      const std::string chart = render_chart({{"a", curve}}, options);
      EXPECT_TRUE(balanced(chart));
      for (const char* bad : {"nan", "inf"}) EXPECT_EQ(chart.find(bad), chart.npos) << chart;
    }
  }
  EXPECT_EQ(render_chart({{"a", {{0, NAN}, {NAN, 3}}}, {"b", {}}}, {}), "");
}

Report sample() {
  Report report;
  report.title = "Schemes <1> & \"others\"";
  report.lead = "A lead with <b>.";
  report.summary = {{"run", "loss"}, {"prenorm", "3.2"}, {"<post>", "3.4"}};
  for (const char* name : {"prenorm", "<post>", "siamese & co"}) {
    RunCurves run;
    run.label = name;
    run.loss = run.grad_norm = falling(50, 3);
    run.lr = {{0, 0}, {50, 1e-3}};
    run.validation_loss = {{10, 4}, {20, 3}};
    report.runs.push_back(run);
  }
  report.texts = {{"Sample <x>", "</pre><script>alert(1)</script>\xff"}};
  return report;
}

TEST(Page, HasEverythingEscaped) {
  const std::string page = render_html(sample());
  for (const char* part :
       {"<title>Schemes &lt;1&gt; &amp; &quot;others&quot;</title>", "A lead with &lt;b&gt;.", ">Training loss<",
        ">Validation loss<", ">Gradient norm<", ">Learning rate<", ">all runs<", "<td class=\"number best\">3.2</td>",
        "Sample &lt;x&gt;", "&lt;/pre&gt;&lt;script&gt;alert(1)"}) {
    EXPECT_NE(page.find(part), page.npos) << part;
  }
  for (const char* label : {">prenorm<", ">&lt;post&gt;<", ">siamese &amp; co<"})
    EXPECT_GE(count(page, label), 3u) << label;
  EXPECT_EQ(page.find(">Next-token accuracy<"), page.npos) << "no run has it";
  EXPECT_EQ(count(page, "role=\"img\" aria-label=\"Line chart: "), 4u);
  EXPECT_EQ(count(page, "http"), 0u) << "nothing to fetch";
}

TEST(Page, MarkupIsBalanced) {
  const std::string page = render_html(sample());
  const size_t begin = page.find("<body>"), end = page.find("<script>", begin);
  ASSERT_NE(end, page.npos);
  EXPECT_TRUE(balanced(page.substr(begin, end - begin) + "</body>"));
  EXPECT_EQ(count(page, "<svg"), count(page, "</svg>"));
}

TEST(Page, EmptyReport) {
  const std::string page = render_html({});
  EXPECT_EQ(page.find("<figure>"), page.npos);
  EXPECT_NE(page.find("</html>"), page.npos);
}

}  // namespace
}  // namespace siamese
