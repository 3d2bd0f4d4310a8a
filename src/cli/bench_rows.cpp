#include "cli/bench_rows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <cstdio>

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

}  // namespace

void print_rows(const std::string& workload, const std::vector<Row>& rows, const BenchPlace& place) {
  const TrainConfig& t = rows.front().recipe.train;
  const bool words = rows.front().recipe.model.family == "lm";
  const int64_t length = tokens_per_sample(rows.front().recipe);
  Table table = {{"scheme", "ms (median)", "10 % … 90 %", words ? "tokens/s" : "images/s", "MFU", "peak GiB",
                  "over the first", "update, ms", "first step s"}};
  const double base = rows.front().median();
  const double tokens = static_cast<double>(place.parts * t.micro_batch_size * length),
               items = words ? tokens : static_cast<double>(place.parts * t.micro_batch_size);
  for (const Row& row : rows) {
    const double ms = row.median(), low = row.quantile(0.1), high = row.quantile(0.9);
    const ModelConfig& m = row.recipe.model;
    // Products: 6 N a token, N the parameters it meets, and 6 L d T of causal attention, twice that where every token
    // sees every token.
    const double flops =
        tokens * (6 * row.parameters + (words ? 6.0 : 12.0) * static_cast<double>(m.n_layers * m.d_model * length));
    const double peak = peak_flops(place.name), mfu = peak > 0 ? flops / (ms * 1e-3) / peak : 0;
    const bool deterministic = place.device.is_cpu() || row.recipe.train.deterministic;
    if (place.json)
      fmt::print(
          "{{\"workload\": \"{}\", \"scheme\": \"{}\", \"ms\": {:.2f}, \"ms_p10\": {:.2f}, \"ms_p90\": {:.2f}, "
          "\"items_per_s\": {:.0f}, \"mfu\": {:.3f}, \"parameters\": {:.0f}, \"peak_gb\": {:.2f}, \"update_ms\": "
          "{}, \"first_step_s\": "
          "{:.2f}, "
          "\"deterministic\": {}, \"graph\": {}, \"parts\": {}, \"threads\": {}, \"device\": \"{}\", \"revision\": "
          "\"{}\", "
          "\"steps_ms\": [{:.1f}]}}\n",
          workload, m.scheme, ms, low, high, 1e3 * items / ms, mfu, row.parameters, row.peak_gb,
          row.update_ms > 0 ? fmt::format("{:.2f}", row.update_ms) : "null", row.first_step_s, deterministic, row.graph,
          place.parts, at::get_num_threads(), place.device.is_cuda() ? place.name : place.device.str(),
          versions().revision, fmt::join(row.ms, ", "));
    table.push_back(
        {m.scheme, fmt::format("{:.1f}", ms), fmt::format("{:.1f} … {:.1f}", low, high),
         fmt::format("{:.0f}", 1e3 * items / ms), mfu > 0 ? fmt::format("{:.1f} %", 100 * mfu) : "",
         row.peak_gb > 0 ? fmt::format("{:.1f}", row.peak_gb) : "", fmt::format("{:+.1f} %", 100 * (ms / base - 1)),
         row.update_ms > 0 ? fmt::format("{:.2f}", row.update_ms) : "", fmt::format("{:.2f}", row.first_step_s)});
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
