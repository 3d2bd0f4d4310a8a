// siamese schemes: the table of residual schemes.
#include <fmt/format.h>

#include "cli/commands.h"
#include "models/language_model.h"
#include "report/report.h"
#include "residual/scheme.h"

namespace siamese::cli {
namespace {

/// A model of 4 blocks that holds no memory, to count what a scheme adds.
int64_t parameters_of(const std::string& scheme) {
  ModelConfig c;
  c.scheme = scheme;
  c.n_layers = 4;
  c.n_kv_heads = c.n_heads;
  c.mlp_hidden_size = 8 * c.d_model;
  c.vocab_size = 256;
  c.streams = scheme == "mhc" ? 4 : 2;
  ModelOptions options;
  options.device = at::kMeta;
  return LanguageModel(c, options).params().count();
}

std::string streams_of(const std::string& scheme) {
  if (scheme.starts_with("hc_")) return "n (2)";
  if (scheme == "mhc") return "n (4)";
  return scheme.starts_with("siamese") || scheme == "resi_dual" ? "2" : "1";
}

void run() {
  Table table = {{"scheme", "one sub-layer", "end", "streams", "parameters per block over pre, in d", "what it is"}};
  const ModelConfig defaults;
  const int64_t base = parameters_of("pre");
  for (const SchemeInfo& info : scheme_table()) {
    const double per_block =
        static_cast<double>(parameters_of(info.name) - base) / 4.0 / static_cast<double>(defaults.d_model);
    table.push_back(
        {info.name, info.formula, info.end, streams_of(info.name), fmt::format("{:+.2f}", per_block), info.about});
  }
  fmt::print("{}", render_text(table));
  fmt::print(
      "\nF: attention or feed-forward; N: a norm with a gain of its own; l: block; L: blocks; c = sqrt(2(l+1)).\n"
      "Parameters are counted at d = {} and 4 blocks, norms at the end included; choose with model.scheme.\n",
      defaults.d_model);
}

}  // namespace

void add_schemes(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("schemes", "List the residual schemes: formulas, streams, parameters");
  sub->footer("Example:\n  siamese schemes\n  siamese train lm-tiny --set model.scheme=siamese --out runs/s");
  sub->callback([] { run(); });
}

}  // namespace siamese::cli
