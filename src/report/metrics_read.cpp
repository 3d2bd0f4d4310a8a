#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "report/report.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

using Json = nlohmann::json;
using Curve = std::vector<std::pair<double, double>>;

constexpr size_t kExcerpt = 60;  // bytes of a bad line that a message quotes

struct Field {
  const char* key;
  Curve RunCurves::*curve;
};

constexpr std::array kFields = {
    Field{"loss", &RunCurves::loss},
    Field{"grad_norm", &RunCurves::grad_norm},
    Field{"lr", &RunCurves::lr},
    Field{"tokens_per_s", &RunCurves::tokens_per_s},
    Field{"images_per_s", &RunCurves::images_per_s},
    Field{"validation_loss", &RunCurves::validation_loss},
    Field{"accuracy", &RunCurves::accuracy},
    Field{"exact_match", &RunCurves::exact_match},
    Field{"balance_loss", &RunCurves::balance_loss},
    Field{"router_z", &RunCurves::router_z},
    Field{"router_entropy", &RunCurves::router_entropy},
    Field{"dropped", &RunCurves::dropped},
    Field{"load_min", &RunCurves::load_min},
    Field{"load_max", &RunCurves::load_max},
    Field{"dead_experts", &RunCurves::dead_experts},
};

// JSON has no NaN: a diverged run writes null or a word. Both are kept as NaN, which a chart shows as a gap.
bool names_non_finite(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word.starts_with('-') || word.starts_with('+')) word.erase(0, 1);
  return word == "nan" || word == "inf" || word == "infinity";
}

std::optional<double> number_or_nan(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_null() || (value.is_string() && names_non_finite(value.get<std::string>()))) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return std::nullopt;
}

// A run resumed from a checkpoint repeats the steps after it: what it writes now replaces what the killed one wrote.
void forget_from(RunCurves& run, double step) {
  for (const Field& field : kFields) {
    Curve& curve = run.*field.curve;
    while (!curve.empty() && curve.back().first >= step) curve.pop_back();
  }
}

class MetricsReader {
 public:
  MetricsReader(std::string path, RunCurves& run) : path_(std::move(path)), run_(run) {}

  void read() {
    std::ifstream file(path_);
    if (!file) fail("{}: cannot open; a run folder holds this file after its first step", path_);
    for (std::string line; std::getline(file, line);) {
      ++line_number_;
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      const bool unended = file.eof();  // getline met the end of the file before a newline
      if (entry.is_discarded() && unended) return;
      if (!entry.is_object()) fail("{}:{}: not a JSON object: {}", path_, line_number_, printable(line, kExcerpt));
      add(entry);
    }
    if (file.bad()) fail("{}: reading stopped after line {}", path_, line_number_);
  }

 private:
  void add(const Json& entry) {
    const auto step = entry.find("step");
    if (step == entry.end() || !step->is_number() || step->get<double>() < 0) {
      fail("{}:{}: \"step\" must be a number ≥ 0", path_, line_number_);
    }
    const auto at = step->get<double>();
    if (at < newest_step_) forget_from(run_, at);
    newest_step_ = at;
    if (entry.contains("expert_load")) add_load(entry, at);
    for (const Field& field : kFields) {
      const auto value = entry.find(field.key);
      if (value == entry.end()) continue;
      const std::optional<double> number = number_or_nan(*value);
      if (!number) {
        fail("{}:{}: \"{}\" must be a number, null, \"nan\" or \"inf\", not {}", path_, line_number_, field.key,
             printable(value->dump(-1, ' ', false, Json::error_handler_t::replace), kExcerpt));
      }
      Curve& curve = run_.*field.curve;
      if (!curve.empty() && curve.back().first == at) curve.pop_back();  // logged twice: the later one counts
      curve.emplace_back(at, *number);
    }
  }

  /// The newest line of loads is the one that is shown.
  void add_load(const Json& entry, double at) {
    ExpertHeat heat;
    heat.step = at;
    try {
      heat.steps = entry.value("expert_load_steps", 0.0);
      heat.loads = entry.at("expert_load").get<std::vector<std::vector<double>>>();
      heat.blocks = entry.at("expert_load_blocks").get<std::vector<int64_t>>();
    } catch (const Json::exception&) {
      fail("{}:{}: \"expert_load\" must be rows of numbers, \"expert_load_blocks\" a number a row", path_,
           line_number_);
    }
    const auto uneven = [&](const auto& row) { return row.empty() || row.size() != heat.loads[0].size(); };
    if (heat.loads.size() != heat.blocks.size() || std::any_of(heat.loads.begin(), heat.loads.end(), uneven))
      fail("{}:{}: the rows of \"expert_load\" must be equally long, with a block each", path_, line_number_);
    run_.load = std::move(heat);
  }

  std::string path_;
  RunCurves& run_;
  int64_t line_number_ = 0;
  double newest_step_ = 0;
};

}  // namespace

RunCurves read_run(const std::string& folder, const std::string& label) {
  RunCurves run;
  run.label = label;
  MetricsReader(folder + "/metrics.jsonl", run).read();
  return run;
}

}  // namespace siamese
