// Mixtures in reports: the lines are read, charts and the table of loads appear where there are experts.
#include <gtest/gtest.h>

#include <filesystem>

#include "data_files.h"
#include "recipe_errors.h"
#include "report/heatmap.h"
#include "report/report.h"

namespace siamese {
namespace {

using recipe_test::contains;
using recipe_test::message_of;

/// A run folder with these lines of metrics.
struct StoredRun {
  explicit StoredRun(const std::string& lines)
      : folder(std::filesystem::path(files.write("metrics.jsonl", lines)).parent_path().string()) {}
  DataFolder files;
  std::string folder;
};

constexpr const char* kStep =
    R"({"step": 1, "loss": 2, "balance_loss": 1.25, "router_z": 3, "router_entropy": 0.75, "dropped": 0, "load_min": 0.5, "load_max": 1.5, "dead_experts": 1}
)";

TEST(ReportMoe, LinesAreRead) {
  const StoredRun run(std::string(kStep) +
                      R"({"step": 1, "expert_load_steps": 1, "expert_load_blocks": [0], "expert_load": [[9, 9]]}
{"step": 50, "expert_load_steps": 49, "expert_load_blocks": [2, 3], "expert_load": [[1, 3], [2, 2]]}
)");
  const RunCurves c = read_run(run.folder, "a");
  EXPECT_EQ(c.balance_loss.at(0).second, 1.25);
  EXPECT_EQ(c.router_z.at(0).second, 3);
  EXPECT_EQ(c.router_entropy.at(0).second, 0.75);
  EXPECT_EQ(c.load_min.at(0).second, 0.5);
  EXPECT_EQ(c.load_max.at(0).second, 1.5);
  EXPECT_EQ(c.dead_experts.at(0).second, 1);
  EXPECT_EQ(c.dropped.at(0).second, 0);
  EXPECT_EQ(c.load.step, 50);
  EXPECT_EQ(c.load.steps, 49);
  EXPECT_EQ(c.load.blocks, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(c.load.loads, (std::vector<std::vector<double>>{{1, 3}, {2, 2}}));
}

TEST(ReportMoe, BadLoadsAreRefused) {
  for (const char* load :
       {R"("expert_load": 3, "expert_load_blocks": [0])", R"("expert_load": [[1, "x"]], "expert_load_blocks": [0])",
        R"("expert_load": [[1], [1, 2]], "expert_load_blocks": [0, 1])",
        R"("expert_load": [[1]], "expert_load_blocks": [0, 1])", R"("expert_load": [[1]])",
        R"("expert_load": [[]], "expert_load_blocks": [0])"}) {
    const StoredRun run(std::string(R"({"step": 1, "expert_load_steps": 1, )") + load + "}\n");
    EXPECT_TRUE(contains(message_of([&] { read_run(run.folder, "a"); }), "metrics.jsonl:1:")) << load;
  }
}

TEST(ReportMoe, PageHasExpertsWhereARunHasThem) {
  Report report;
  report.runs.resize(2);
  report.runs[0].label = "dense", report.runs[1].label = "<moe>";
  for (RunCurves& run : report.runs) run.loss = {{1, 2}, {2, 1}};
  EXPECT_EQ(render_html(report).find("Experts"), std::string::npos);
  report.runs[1].load_min = {{1, 0.5}, {2, 0.75}};
  report.runs[1].load = {50, 50, {4}, {{1, 3}}};
  const std::string page = render_html(report);
  EXPECT_TRUE(contains(page, "<h2>Experts</h2>"));
  EXPECT_TRUE(contains(page, "Least busy expert"));
  EXPECT_TRUE(contains(page, "Load of the experts: &lt;moe&gt;"));
  EXPECT_TRUE(contains(page, "steps 1 to 50"));
  report.runs[1].dropped = {{1, 0.0}, {2, 0.0}};
  EXPECT_FALSE(contains(render_html(report), "Dropped assignments"));
  report.runs[1].dropped = {{1, 0.0}, {2, 0.1}};
  EXPECT_TRUE(contains(render_html(report), "Dropped assignments"));
}

TEST(ReportMoe, HeatmapShowsSharesOfTheMean) {
  const std::string map = render_heatmap({50, 50, {4, 5}, {{1, 3}, {0, 0}}}, "a");
  EXPECT_TRUE(contains(map, "block 4, expert 1: 3 tokens, 1.50 of the mean"));
  EXPECT_TRUE(contains(map, "block 5, expert 0: 0 tokens, 0.00 of the mean"));
  EXPECT_TRUE(contains(map, "least 0.00, most 1.50"));
  EXPECT_EQ(render_heatmap({}, "a"), "");
}

}  // namespace
}  // namespace siamese
