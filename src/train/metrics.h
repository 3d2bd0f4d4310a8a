// metrics.jsonl: a line a step, evaluations as lines of their own.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace siamese {

/// Values of an evaluation by name, "validation_loss" first; or further values of a step.
using EvalMetrics = std::vector<std::pair<std::string, double>>;

struct StepMetrics {
  int64_t step = 0;  // 1-based: steps done
  double loss = 0, lr = 0, grad_norm = 0;
  int64_t tokens = 0;
  double tokens_per_s = 0;
  std::string unit = "token";  // what `tokens` counts: also the names in the file, tokens and tokens_per_s
  EvalMetrics more = {};
};

/// Tokens that went to each expert of each mixture over some steps.
struct ExpertLoad {
  int64_t steps = 0;
  std::vector<int64_t> blocks;              // which blocks have a mixture
  std::vector<std::vector<int64_t>> loads;  // [mixture][expert]
};

class MetricsFile {
 public:
  /// Appends to `path`; with `keep_through` ≥ 0 first cuts away every line of a later step and a broken last line, so
  /// that each step stands once after resuming.
  MetricsFile(const std::string& path, int64_t keep_through);
  void write(const StepMetrics& m);
  void write(int64_t step, const EvalMetrics& m);
  /// A line of its own: {"step", "expert_load_steps", "expert_load_blocks", "expert_load"}.
  void write(int64_t step, const ExpertLoad& load);

 private:
  void line(const std::string& text);
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace siamese
