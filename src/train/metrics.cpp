#include "train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "util/error.h"
#include "util/files.h"

namespace siamese {
namespace {

/// JSON knows no NaN.
std::string number(double v, int digits) { return std::isfinite(v) ? fmt::format("{:.{}g}", v, digits) : "null"; }

std::string kept_lines(const std::string& path, int64_t last_step) {
  std::istringstream in(read_file(path));
  std::string kept, line;
  while (std::getline(in, line)) {
    const auto j = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (j.is_object() && j.contains("step") && j["step"].is_number_integer() && j["step"].get<int64_t>() <= last_step)
      kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, int64_t keep_through) : path_(path), file_(nullptr, &std::fclose) {
  if (keep_through >= 0 && std::filesystem::exists(path)) write_file_atomic(path, kept_lines(path, keep_through));
  file_.reset(std::fopen(path.c_str(), keep_through >= 0 ? "ab" : "wb"));
  if (!file_) fail("{}: {}", path, std::strerror(errno));
}

void MetricsFile::line(const std::string& text) {
  // Handed to the system at once: a killed process loses no finished step.
  if (std::fputs(text.c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0)
    fail("{}: {}", path_, std::strerror(errno));
}

void MetricsFile::write(const StepMetrics& m) {
  std::string text = fmt::format(
      "{{\"step\": {}, \"loss\": {}, \"lr\": {}, \"grad_norm\": {}, \"{}s\": {}, \"{}s_per_s\": {}", m.step,
      number(m.loss, 9), number(m.lr, 6), number(m.grad_norm, 6), m.unit, m.tokens, m.unit, number(m.tokens_per_s, 5));
  for (const auto& [name, value] : m.more) text += fmt::format(", \"{}\": {}", name, number(value, 6));
  line(text + "}\n");
}

void MetricsFile::write(int64_t step, const ExpertLoad& load) {
  line(fmt::format("{{\"step\": {}, \"expert_load_steps\": {}, \"expert_load_blocks\": {}, \"expert_load\": {}}}\n",
                   step, load.steps, nlohmann::json(load.blocks).dump(), nlohmann::json(load.loads).dump()));
}

void MetricsFile::write(int64_t step, const EvalMetrics& m) {
  std::string text = fmt::format("{{\"step\": {}", step);
  for (const auto& [name, value] : m) text += fmt::format(", \"{}\": {}", name, number(value, 9));
  line(text + "}\n");
}

}  // namespace siamese
