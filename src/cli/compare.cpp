// siamese compare RECIPE --schemes a,b: the same recipe under several schemes, side by side; `make demo` calls it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/common.h"
#include "cli/report_parts.h"
#include "data/source.h"
#include "models/generate.h"
#include "report/report.h"
#include "residual/scheme.h"
#include "train/signals.h"
#include "train/trainer.h"
#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string recipe, out = "runs/compare", schemes = "pre,post,hybrid,siamese_hybrid", prompt;
  std::vector<std::string> set;
  bool overwrite = false;
  int64_t lines = 3;
};

struct Row {
  std::string scheme, folder, trouble;  // trouble: why the run stopped early
  TrainResult result;
  RunCurves curves;
  double validation_loss = NAN, accuracy = NAN, exact_match = NAN, largest_grad_norm = 0;
};

Row train_one(const Options& o, const std::string& scheme, at::Device device) {
  Row row;
  row.scheme = scheme;
  row.folder = o.out + "/" + scheme;
  std::vector<std::string> set = o.set;
  set.push_back("model.scheme=" + scheme);
  TrainRequest request;
  request.recipe = load_recipe(o.recipe, set);
  request.out = row.folder;
  request.device = device;
  request.mode = o.overwrite ? OpenMode::overwrite : OpenMode::fresh;
  fmt::print("\n== {}\n", scheme);
  try {
    row.result = train(request);
  } catch (const Diverged& e) {
    row.trouble = e.what();                       // a result, not a failure of the comparison
    row.result.signal = StopSignals::received();  // may have come before
    fmt::print(stderr, "{}: {}\n", scheme, e.what());
  }
  if (row.result.signal != 0) return row;
  row.curves = read_run(row.folder, scheme);
  for (const auto& [step, norm] : row.curves.grad_norm) row.largest_grad_norm = std::max(row.largest_grad_norm, norm);
  if (row.trouble.empty() && !row.curves.validation_loss.empty())
    row.validation_loss = row.curves.validation_loss.back().second;
  if (row.trouble.empty() && !row.curves.accuracy.empty()) row.accuracy = row.curves.accuracy.back().second;
  if (row.trouble.empty() && !row.curves.exact_match.empty()) row.exact_match = row.curves.exact_match.back().second;
  return row;
}

std::string percent(double share) { return std::isnan(share) ? "-" : fmt::format("{:.1f} %", 100 * share); }

Table summary(const std::vector<Row>& rows) {
  Table table = {{"scheme", "validation loss", "accuracy", "exact match", "largest gradient norm",
                  (rows.empty() ? "token" : rows[0].result.unit) + "s/s", "note"}};
  for (const Row& r : rows) {
    const bool ok = r.trouble.empty();
    table.push_back({r.scheme, ok ? fmt::format("{:.4f}", r.validation_loss) : "-", percent(r.accuracy),
                     percent(r.exact_match), fmt::format("{:.2f}", r.largest_grad_norm),
                     ok ? fmt::format("{:.0f}", r.result.tokens_per_s) : "-",
                     ok ? "" : r.trouble.substr(0, r.trouble.find(';'))});
  }
  return without_empty_columns(table);
}

/// The beginning of a validation window, up to the end of its third word or so: something to continue.
std::string first_words(const Source& source, int64_t window, int64_t length) {
  std::vector<int64_t> ids(static_cast<size_t>(length + 1));
  ids.resize(static_cast<size_t>(source.validation(window, ids)));
  const std::string text = decode_bytes(ids);
  size_t end = 0;
  for (int words = 0; words < 3 && end < 40 && end < text.size(); ++words)
    end = std::min(text.find(' ', end + 1), text.size());
  return text.substr(0, std::min<size_t>(end, 40));
}

/// A few lines by the best model, each from its own prompt.
std::string write_samples(const Row& best, const Options& o, at::Device device) {
  const LoadedModel loaded = load_model(best.folder, device);
  if (loaded.recipe.data.source == "tokens") return "";
  std::vector<std::string> prompts;
  if (!o.prompt.empty()) {
    prompts.assign(static_cast<size_t>(o.lines), o.prompt);
  } else {
    const Recipe& recipe = loaded.recipe;
    const auto source =
        make_source(recipe.data, recipe.train.sequence_length, static_cast<uint64_t>(recipe.train.seed));
    for (const Problem& p : source->problems(o.lines)) prompts.push_back(p.prompt);
    for (int64_t i = 0; static_cast<int64_t>(prompts.size()) < o.lines; ++i)
      prompts.push_back(first_words(*source, i % source->validation_windows(), recipe.train.sequence_length));
  }
  std::string text;
  for (size_t i = 0; i < prompts.size(); ++i) {
    SamplingOptions sampling;
    sampling.tokens = 160;
    sampling.temperature = loaded.recipe.data.source == "arithmetic" ? 0.0 : 0.7;
    sampling.seed = static_cast<int64_t>(i) + 1;
    sampling.stop = 0;
    std::string line = prompts[i];
    generate(*loaded.model, encode_bytes(prompts[i]), sampling, [&](int64_t id, const at::Tensor&) {
      if (id == '\n') return false;
      line += static_cast<char>(id);
      return true;
    });
    text += line + "\n";
  }
  return text;
}

void run(const Options& o) {
  const at::Device device = o.apply();
  const std::vector<std::string> names = scheme_names_in(o.schemes);
  for (const std::string& name : names) {  // refuse before hours of training
    std::vector<std::string> set = o.set;
    set.push_back("model.scheme=" + name);
    load_recipe(o.recipe, set);
    if (!o.overwrite && RunFolder::holds_run(o.out + "/" + name))
      fail("{}/{}: holds a run; use --overwrite to begin anew", o.out, name);
  }
  std::vector<Row> rows;
  for (const std::string& name : names) {
    rows.push_back(train_one(o, name, device));
    if (const int signal = rows.back().result.signal; signal != 0) {
      exit_status = 128 + signal;
      return;
    }
  }

  const Row* best = nullptr;
  for (const Row& r : rows)
    if (std::isfinite(r.validation_loss) && (best == nullptr || r.validation_loss < best->validation_loss)) best = &r;
  const Recipe recipe = load_recipe(o.recipe, o.set);
  Report report;
  report.title = recipe.name + ": " + join(names, ", ");
  const bool words = recipe.model.family == "lm";
  report.lead = fmt::format(
      "{} steps of {} {} at a learning rate of {:g}, the same recipe, data order and initial projections for "
      "every scheme; {} blocks, d {}, {}.",
      recipe.train.steps, recipe.train.batch_size,
      words ? fmt::format("× {} tokens", recipe.train.sequence_length) : "images", recipe.train.lr,
      recipe.model.n_layers, recipe.model.d_model, recipe.data.source);
  report.summary = summary(rows);
  for (const Row& r : rows) report.runs.push_back(r.curves);
  fmt::print("\n{}\n", render_text(report.summary));
  for (const Row& r : rows) add_sample_grids(report, r.folder, r.scheme);
  if (best != nullptr && recipe.model.family == "lm") {
    const std::string samples = write_samples(*best, o, device);
    fmt::print("written by {}:\n{}\n", best->scheme, samples);
    report.texts.emplace_back("Written by " + best->scheme, samples);
  }
  report.texts.emplace_back("Recipe", to_yaml(recipe));
  const std::string path = o.out + "/report.html";
  write_file_atomic(path, render_html(report));
  fmt::print("report  {}\n", path);
}

}  // namespace

void add_compare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("compare", "Train one recipe under several schemes and write a report");
  sub->add_option("recipe", o->recipe, "a recipe file or the name of a bundled one")->required();
  sub->add_option("--schemes", o->schemes, "comma-separated")->capture_default_str();
  sub->add_option("--out", o->out, "folder for the runs and report.html")->capture_default_str();
  sub->add_option("--set", o->set, "override a key of the recipe: a.b=c (repeatable)")->allow_extra_args(false);
  sub->add_option("--prompt", o->prompt, "what the best model continues");
  sub->add_flag("--overwrite", o->overwrite, "replace earlier runs in the folder");
  o->add_to(sub);
  sub->footer("Example:\n  siamese compare lm-tiny --schemes pre,siamese --set train.lr=4e-3 --out runs/lr");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
