// siamese report RUNS -o PAGE
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/commands.h"
#include "cli/report_parts.h"
#include "util/files.h"

namespace siamese::cli {
namespace {

namespace fs = std::filesystem;

using Curve = std::vector<std::pair<double, double>>;

std::string last(const Curve& curve, int digits = 4) {
  return curve.empty() ? std::string("-") : fmt::format("{:.{}f}", curve.back().second, digits);
}

/// The newest line of metrics.jsonl with a validation loss; not all that stands in it has a curve.
nlohmann::json last_evaluation(const std::string& folder) {
  nlohmann::json found = nlohmann::json::object();
  std::istringstream lines(read_file(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"validation_loss\"") == std::string::npos) continue;
    nlohmann::json entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_object()) found = std::move(entry);
  }
  return found;
}

std::string cell(const nlohmann::json& evaluation, const char* key) {
  const auto value = evaluation.find(key);
  return value == evaluation.end() || !value->is_number() ? "-" : fmt::format("{:.4f}", value->get<double>());
}

void make_report(const std::vector<std::string>& folders, const std::string& path) {
  Report report;
  report.title = "Runs";
  // The averaged weights' accuracy is what `siamese eval` finds.
  report.summary = {{"run", "steps", "training loss", "validation loss", "accuracy", "top5", "ema_accuracy",
                     "largest gradient norm", "tokens/s", "images/s"}};
  for (const std::string& folder : folders) {
    const std::string label = fs::path(folder).lexically_normal().filename().string();
    RunCurves c = read_run(folder, label.empty() ? folder : label);
    const nlohmann::json evaluation = last_evaluation(folder);
    double largest = 0;
    for (const auto& [step, norm] : c.grad_norm) largest = std::max(largest, norm);
    report.summary.push_back({c.label, c.loss.empty() ? "0" : fmt::format("{:.0f}", c.loss.back().first), last(c.loss),
                              last(c.validation_loss), last(c.accuracy), cell(evaluation, "top5"),
                              cell(evaluation, "ema_accuracy"), fmt::format("{:.2f}", largest), last(c.tokens_per_s, 0),
                              last(c.images_per_s, 0)});
    add_sample_grids(report, folder, c.label);
    report.runs.push_back(std::move(c));
  }
  report.summary = without_empty_columns(report.summary);
  write_file_atomic(path, render_html(report));
  fmt::print("{}\nreport  {}\n", render_text(report.summary), path);
}

}  // namespace

Table without_empty_columns(Table table) {
  for (size_t column = table[0].size(); column-- > 0;) {
    const bool empty = std::all_of(table.begin() + 1, table.end(),
                                   [&](const auto& row) { return row[column].empty() || row[column] == "-"; });
    if (!empty) continue;
    for (auto& row : table) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
  return table;
}

void add_sample_grids(Report& report, const std::string& folder, const std::string& label) {
  constexpr size_t kMost = 8;
  std::map<long long, std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    long long step = 0;
    if (name.ends_with(".png") && std::sscanf(name.c_str(), "samples-%lld.png", &step) == 1)
      found.emplace(step, entry.path().string());
  }
  const std::vector<std::pair<long long, std::string>> all(found.begin(), found.end());
  const size_t shown = std::min(all.size(), kMost);
  for (size_t i = 0; i < shown; ++i) {
    const auto& [step, path] = all[shown < 2 ? 0 : (i * (all.size() - 1) + (shown - 1) / 2) / (shown - 1)];
    report.pictures.emplace_back(fmt::format("{}, step {}", label, step), read_file(path));
  }
}

void add_report(CLI::App& app) {
  struct ReportOptions {
    std::vector<std::string> folders;
    std::string out = "report.html";
  };
  auto o = std::make_shared<ReportOptions>();
  CLI::App* sub = app.add_subcommand("report", "One HTML page from the metrics of one or more runs");
  sub->add_option("runs", o->folders, "run folders")->required();
  sub->add_option("-o,--out", o->out, "the page to write")->capture_default_str();
  sub->footer("Example:\n  siamese report runs/a runs/b -o report.html");
  sub->callback([o] { make_report(o->folders, o->out); });
}

}  // namespace siamese::cli
