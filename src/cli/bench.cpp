// siamese bench RECIPE --schemes a,b: the time of a training step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/common.h"
#include "report/report.h"
#include "train/lm_task.h"
#include "train/optimizer.h"
#include "util/error.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string recipe, schemes = "pre,siamese,siamese_hybrid";
  std::vector<std::string> set;
  int64_t steps = 10, rounds = 3;
  bool json = false;
};

struct Row {
  std::string scheme;
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<double> ms;
  double first_step_s = 0;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Forward, backward, clip and update on random ids, as a user's step does it.
double time_step(Row& row, const Recipe& recipe, const at::Tensor& ids, int64_t step) {
  const double t0 = now();
  Forward forward;
  forward.training = true;
  torch::autograd::backward({row.model->loss(ids, forward).total});
  row.optimizer->collect();
  row.optimizer->step({}, recipe.train.lr, step).cpu();  // waits for a GPU
  return 1e3 * (now() - t0);
}

void run(const Options& o) {
  const at::Device device = o.apply();
  std::vector<Row> rows;
  Recipe recipe;
  for (const std::string& scheme : split(o.schemes, ',')) {
    std::vector<std::string> set = o.set;
    set.push_back("model.scheme=" + scheme);
    recipe = load_recipe(o.recipe, set);
    if (recipe.model.vocab_size == 0) recipe.model.vocab_size = 256;
    Row row;
    row.scheme = scheme;
    row.model = make_lm(recipe, device);
    row.model->params().initialise(recipe.train.seed);
    row.optimizer = std::make_unique<Optimizer>(row.model->params(), recipe.train);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) fail("--schemes '{}' names no scheme", o.schemes);
  const at::Tensor ids =
      (uniform({recipe.train.micro_batch_size, recipe.train.sequence_length + 1}, device, {1, 0, kTestSite, 0}) *
       static_cast<double>(recipe.model.vocab_size))
          .to(at::kLong)
          .clamp_max(recipe.model.vocab_size - 1);
  int64_t step = 1;
  for (Row& row : rows) row.first_step_s = time_step(row, recipe, ids, step) / 1e3;
  // Schemes take turns, so that a machine that slows down slows all of them.
  for (int64_t round = 0; round < o.rounds; ++round)
    for (Row& row : rows)
      for (int64_t i = 0; i <= o.steps; ++i) {
        const double ms = time_step(row, recipe, ids, ++step);
        if (i > 0) row.ms.push_back(ms);  // the first after a change of model warms the caches
      }
  Table table = {{"scheme", "ms (median)", "10 % … 90 %", "tokens/s", "over the first", "first step s"}};
  double base = 0;
  const double tokens = static_cast<double>(recipe.train.micro_batch_size * recipe.train.sequence_length);
  for (Row& row : rows) {
    std::sort(row.ms.begin(), row.ms.end());
    const double ms = row.ms[row.ms.size() / 2], low = row.ms[row.ms.size() / 10],
                 high = row.ms[row.ms.size() * 9 / 10];
    if (base == 0) base = ms;
    if (o.json)
      fmt::print(
          "{{\"workload\": \"{}\", \"scheme\": \"{}\", \"ms\": {:.2f}, \"ms_p10\": {:.2f}, \"ms_p90\": {:.2f}, "
          "\"items_per_s\": {:.0f}, "
          "\"first_step_s\": {:.3f}, \"threads\": {}, \"device\": \"{}\"}}\n",
          recipe.name, row.scheme, ms, low, high, 1e3 * tokens / ms, row.first_step_s, at::get_num_threads(),
          device.str());
    table.push_back({row.scheme, fmt::format("{:.1f}", ms), fmt::format("{:.1f} … {:.1f}", low, high),
                     fmt::format("{:.0f}", 1e3 * tokens / ms), fmt::format("{:+.1f} %", 100 * (ms / base - 1)),
                     fmt::format("{:.2f}", row.first_step_s)});
  }
  if (!o.json)
    fmt::print("{}, {} × {} tokens, {}, {} threads\n{}", recipe.name, recipe.train.micro_batch_size,
               recipe.train.sequence_length, device.str(), at::get_num_threads(), render_text(table));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("bench", "Time a training step of a recipe under several schemes");
  sub->add_option("recipe", o->recipe, "a recipe file or the name of a bundled one")->required();
  sub->add_option("--schemes", o->schemes, "comma-separated; overheads are against the first")->capture_default_str();
  sub->add_option("--set", o->set, "override a key of the recipe: a.b=c (repeatable)")->allow_extra_args(false);
  sub->add_option("--steps", o->steps, "timed steps a round")->capture_default_str()->check(CLI::Range(1, 1000000));
  sub->add_option("--rounds", o->rounds, "rounds in which the schemes take turns")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  sub->add_flag("--json", o->json, "JSON lines instead of a table");
  o->add_to(sub);
  sub->footer("Example:\n  siamese bench lm-tiny --schemes pre,siamese --threads 2");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
