#include "cli/bench_rows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/attention_choice.h"
#include "report/report.h"
#include "train/device.h"
#include "train/models.h"

namespace siamese::cli {
namespace {

/// bf16 without sparsity, from the vendor's data sheets; 0 where it is not known.
double peak_flops(const std::string& device) {
  if (device.find("H100") != std::string::npos || device.find("H200") != std::string::npos) return 989e12;
  if (device.find("A100") != std::string::npos) return 312e12;
  return 0;
}

/// With so many digits, or null where there is nothing to tell.
nlohmann::ordered_json rounded(double value, int digits, bool known = true) {
  const double unit = std::pow(10, digits);
  return known ? nlohmann::ordered_json(std::round(value * unit) / unit) : nlohmann::ordered_json(nullptr);
}

}  // namespace

void print_rows(const std::string& workload, const std::vector<Row>& rows, const BenchPlace& place) {
  const TrainConfig& t = rows.front().recipe.train;
  const bool words = rows.front().recipe.model.family == "lm";
  const int64_t length = tokens_per_sample(rows.front().recipe);
  const auto pre = std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.recipe.model.scheme == "pre"; });
  const Row& base = pre != rows.end() ? *pre : rows.front();
  Table table = {{"scheme", "ms (median)", "10 % … 90 %", words ? "tokens/s" : "images/s", "MFU", "peak GiB",
                  "over " + base.recipe.model.scheme, "update, ms", "first step s"}};
  const double tokens = static_cast<double>(place.parts * t.micro_batch_size * length),
               items = words ? tokens : static_cast<double>(place.parts * t.micro_batch_size);
  for (const Row& row : rows) {
    const double ms = row.median(), low = row.quantile(0.1), high = row.quantile(0.9),
                 over = 100 * (ms / base.median() - 1);
    const ModelConfig& m = row.recipe.model;
    // Products: 6 N a token, N the parameters it meets, and 6 L d T of causal attention, twice that where every token
    // sees every token.
    const double flops =
        tokens * (6 * row.parameters + (words ? 6.0 : 12.0) * static_cast<double>(m.n_layers * m.d_model * length));
    const double peak = peak_flops(place.name), mfu = peak > 0 ? flops / (ms * 1e-3) / peak : 0;
    const bool gpu = place.device.is_cuda();
    if (place.json) {
      nlohmann::ordered_json j;
      j["workload"] = workload, j["scheme"] = m.scheme;
      j["ms"] = rounded(ms, 2), j["ms_p10"] = rounded(low, 2), j["ms_p90"] = rounded(high, 2);
      j["items_per_s"] = std::llround(1e3 * items / ms), j["mfu"] = rounded(mfu, 3, mfu > 0);
      j["over_pre"] = rounded(over, 2, pre != rows.end());  // %
      j["parameters"] = std::llround(row.parameters);
      j["peak_gb"] = rounded(row.peak_gb, 2, gpu), j["update_ms"] = rounded(row.update_ms, 2, row.update_ms > 0);
      j["first_step_s"] = rounded(row.first_step_s, 2);
      j["deterministic"] = !gpu || row.recipe.train.deterministic, j["graph"] = row.graph, j["parts"] = place.parts;
      j["rest_s"] = rounded(place.rest, 1, gpu), j["threads"] = at::get_num_threads();
      j["device"] = gpu ? place.name : place.device.str(), j["revision"] = versions().revision;
      for (const double each : row.ms) j["steps_ms"].push_back(rounded(each, 1));
      fmt::print("{}\n", j.dump());
    }
    table.push_back({m.scheme, fmt::format("{:.1f}", ms), fmt::format("{:.1f} … {:.1f}", low, high),
                     fmt::format("{:.0f}", 1e3 * items / ms), mfu > 0 ? fmt::format("{:.1f} %", 100 * mfu) : "",
                     gpu ? fmt::format("{:.1f}", row.peak_gb) : "", &row == &base ? "" : fmt::format("{:+.1f} %", over),
                     row.update_ms > 0 ? fmt::format("{:.2f}", row.update_ms) : "",
                     fmt::format("{:.2f}", row.first_step_s)});
  }
  std::fflush(stdout);
  if (place.json) return;
  fmt::print("{}, {}{} × {} tokens, {}", workload, place.parts > 1 ? fmt::format("{} × ", place.parts) : "",
             t.micro_batch_size, length,
             place.device.is_cuda() ? place.name : fmt::format("{} threads", at::get_num_threads()));
  const ModelConfig& m = rows.front().recipe.model;
  if (place.device.is_cuda()) fmt::print(", {}", rows.front().graph ? "CUDA graph" : "eager");
  fmt::print(", {}", place.device.is_cpu() || t.deterministic ? "deterministic" : "not deterministic");
  if (place.device.is_cuda() && words)
    fmt::print(", attention {}", attention_backend({m.n_heads, m.n_kv_heads, m.d_model / m.n_heads}, place.device));
  fmt::print("\n{}", render_text(table));
}

}  // namespace siamese::cli
