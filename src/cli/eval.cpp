// siamese eval CHECKPOINT [--data FILE]
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdio>

#include "cli/common.h"
#include "data/source.h"
#include "report/report.h"
#include "train/deit_task.h"
#include "train/lm_task.h"
#include "util/error.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string checkpoint, data, dtype;
  int64_t batches = 0, problems = 1000;
  bool ema = false, raw = false;
};

/// A classifier: the metrics, and which class is taken for which.
void run_classifier(const Options& o) {
  const LoadedImageModel<DeiT> loaded = load_deit(o.checkpoint, o.apply(), o.raw);
  const Recipe& recipe = loaded.recipe;
  std::shared_ptr<const ImageSet> set;
  if (o.data.empty()) {
    set = image_sets_of(recipe).validation;
  } else {
    set = classes_of_model(make_folder_set(o.data), recipe.model.classes, "--data " + o.data);
  }
  set = spread_over(set, o.batches * recipe.train.batch_size);
  const std::vector<std::string>& names = set->class_names();
  fmt::print("checkpoint {} (step {}{}), {}\n", loaded.checkpoint, loaded.step,
             loaded.averaged ? ", averaged weights" : "", set->describe());
  std::fflush(stdout);
  at::Tensor confusion;
  for (const auto& [name, value] : evaluate_deit(*loaded.model, *set, recipe, &confusion))
    fmt::print("{:<16} {:.6g}\n", name, value);
  constexpr size_t kShown = 20;
  if (names.size() > kShown) return;
  Table table = {{"true \\ found"}};
  for (const std::string& name : names) table[0].push_back(name);
  for (size_t i = 0; i < names.size(); ++i) {
    table.push_back({names[i]});
    for (size_t j = 0; j < names.size(); ++j)
      table.back().push_back(
          fmt::format("{}", confusion[static_cast<int64_t>(i)][static_cast<int64_t>(j)].item<int64_t>()));
  }
  fmt::print("\n{}", render_text(table));
}

void run(const Options& o) {
  const std::string family = family_of(o.checkpoint);
  if (family == "deit") return run_classifier(o);
  const LoadedModel loaded = load_model(o.checkpoint, o.apply(), o.ema);
  const Recipe& recipe = loaded.recipe;
  const int64_t length = recipe.train.sequence_length;
  std::unique_ptr<Source> source;
  if (o.data.empty()) {
    source = make_source(recipe.data, length, static_cast<uint64_t>(recipe.train.seed));
  } else {
    const bool tokens = recipe.data.source == "tokens";
    const std::string dtype = !o.dtype.empty() ? o.dtype : tokens ? recipe.data.token_dtype : "text";
    if (tokens && dtype == "text")
      fail("--data {}: the model was trained on token ids; text cannot be its data", o.data);
    source = make_validation_source(o.data, dtype, length);
  }
  if (source->vocab_size() > recipe.model.vocab_size)
    fail("{}: needs a vocabulary of {}, the model has {}", o.data, source->vocab_size(), recipe.model.vocab_size);
  source->set_vocab_size(recipe.model.vocab_size);
  fmt::print("checkpoint {} (step {}), {}\n", loaded.checkpoint, loaded.step, source->describe());
  std::fflush(stdout);
  const EvalMetrics m = evaluate_lm(*loaded.model, *source, recipe.data, length, recipe.train.micro_batch_size,
                                    o.batches * recipe.train.batch_size, o.problems);
  for (const auto& [name, value] : m) fmt::print("{:<16} {:.6g}\n", name, value);
}

}  // namespace

void add_eval(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "eval", "Loss and accuracy of a checkpoint; of a classifier also which class is taken for which");
  sub->add_option("checkpoint", o->checkpoint, "a checkpoint or a run folder (its newest checkpoint)")->required();
  sub->add_option("--data", o->data,
                  "a file (a classifier: a folder of class folders) instead of the run's own validation data");
  sub->add_option("--dtype", o->dtype, "what --data holds: text, uint16 or uint32 (default: as the model's own data)")
      ->check(CLI::IsMember({"text", "uint16", "uint32"}));
  sub->add_option("--batches", o->batches, "validation batches (0: all)")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  sub->add_option("--problems", o->problems, "held-out problems for exact match")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  sub->add_flag("--ema", o->ema, "use the averaged weights of a language model");
  sub->add_flag("--raw", o->raw, "a classifier: not the averaged weights, which are used where there are some");
  o->add_to(sub);
  sub->footer("Example:\n  siamese eval runs/tiny --data other_book.txt");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
