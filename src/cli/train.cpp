// siamese train RECIPE --out DIR
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/common.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string recipe, out, from, init_from;
  std::vector<std::string> set;
  bool resume = false, overwrite = false;
};

/// The command that continues this run, fit for a shell.
std::string resume_command(const Options& o) {
  std::string text = shell_quoted(program) + " train";
  if (!o.recipe.empty()) text += " " + shell_quoted(o.recipe);
  text += " --out " + shell_quoted(o.out);
  for (const std::string& s : o.set) text += " --set " + shell_quoted(s);
  if (o.device != "auto") text += " --device " + o.device;
  if (o.threads > 0) text += fmt::format(" --threads {}", o.threads);
  return text + " --resume";
}

void run(const Options& o) {
  if (o.resume && o.overwrite) throw UsageError("--resume and --overwrite exclude each other");
  if (!o.from.empty() && !o.resume) throw UsageError(fmt::format("--from {}: only together with --resume", o.from));
  if (!o.init_from.empty() && o.resume)
    throw UsageError(fmt::format("--init-from {}: not together with --resume", o.init_from));
  TrainRequest request;
  if (o.recipe.empty()) {
    const std::string stored = o.out + "/recipe.yaml";
    if (o.resume && !o.out.empty() && !std::filesystem::exists(stored))
      throw UsageError(fmt::format("--resume --out {}: there is no run (no {})", o.out, stored));
    if (!o.resume || o.out.empty()) throw UsageError("a recipe is needed: siamese train RECIPE --out DIR");
    request.recipe = load_recipe(stored, o.set);
  } else {
    request.recipe = load_recipe(o.recipe, o.set);
  }
  request.device = o.apply();
  request.out = o.out.empty() ? "runs/" + request.recipe.name : o.out;
  request.mode = o.resume ? OpenMode::resume : o.overwrite ? OpenMode::overwrite : OpenMode::fresh;
  request.from = o.from;
  request.init_from = o.init_from;
  Options named = o;
  named.out = request.out;
  request.resume_command = resume_command(named);
  const TrainResult r = train(request);
  if (r.signal != 0) {
    if (!r.data_notes.empty()) fmt::print("data    {}\n", r.data_notes);
    exit_status = 128 + r.signal;
    return;
  }
  fmt::print("done    {} steps in {}, {} {}s/s, {:.1f}% of the time waiting for data\n", r.step,
             human_seconds(r.seconds), human_count(r.tokens_per_s), r.unit, 100 * r.data_wait);
  if (!r.data_notes.empty()) fmt::print("data    {}\n", r.data_notes);
  const std::string& family = request.recipe.model.family;
  fmt::print("next    {} {} {}\n", shell_quoted(program),
             family == "lm"    ? "generate"
             : family == "dit" ? "sample"
                               : "eval",
             shell_quoted(request.out));
}

}  // namespace

void add_train(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("train", "Train a model from a recipe");
  sub->add_option("recipe", o->recipe,
                  "a recipe file or the name of a bundled one; with --resume the run's own if left out");
  sub->add_option("--out", o->out, "run folder (default: runs/NAME)");
  sub->add_option("--set", o->set, "override a key of the recipe: a.b=c (repeatable)")->allow_extra_args(false);
  sub->add_flag("--resume", o->resume, "continue the run in the folder from its newest checkpoint");
  sub->add_flag("--overwrite", o->overwrite, "remove the run in the folder and begin anew");
  sub->add_option("--from", o->from, "with --resume: this checkpoint instead of the newest");
  sub->add_option("--init-from", o->init_from, "start anew from the weights of this checkpoint or run");
  o->add_to(sub);
  sub->footer(
      "Examples:\n  siamese train recipes/lm-tiny.yaml --out runs/tiny\n"
      "  siamese train lm-tiny --set data.text=book.txt --set model.scheme=pre --out runs/book\n"
      "  siamese train --out runs/book --resume");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
