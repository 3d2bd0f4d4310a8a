// What `siamese bench` measured of a scheme, and how it is shown.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "train/step_runner.h"

namespace siamese::cli {

struct Row {
  Recipe recipe;
  std::unique_ptr<StepRunner> runner;
  std::vector<double> ms;
  double first_step_s = 0, peak_gb = 0, parameters = 0, update_ms = 0;
  int64_t step = 0;
  bool graph = false, measured = false;  // a whole round of it

  /// The time below which `share` of the steps lie.
  double quantile(double share) const {
    std::vector<double> sorted = ms;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size()))];
  }
  double median() const { return quantile(0.5); }
};

struct BenchPlace {
  at::Device device;
  std::string name;   // of the GPU
  int64_t parts = 1;  // micro-batches a step
  double rest = 0;    // seconds after the first step of every turn
  bool json = false;
};
/// A table, or JSON lines; overheads are against pre, without it the first row.
void print_rows(const std::string& workload, const std::vector<Row>& rows, const BenchPlace& place);

}  // namespace siamese::cli
