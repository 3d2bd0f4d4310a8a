// siamese eval CHECKPOINT [--data FILE|FOLDER]
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <tuple>

#include "cli/common.h"
#include "data/source.h"
#include "images/numbered_set.h"
#include "images/validation_batch.h"
#include "nn/tensor_io.h"
#include "report/report.h"
#include "train/checkpoint.h"
#include "train/deit_task.h"
#include "train/lm_task.h"
#include "util/error.h"
#include "util/files.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string checkpoint, data, dtype, confusion;
  int64_t batches = 0, problems = 1000;
  bool ema = false, raw = false;
};

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// Which class is taken for which: a row a true class, a column a found one, of all classes of the model.
struct Confusion {
  std::vector<std::string> names;
  at::Tensor counts;

  int64_t at(size_t i, size_t j) const { return counts.const_data_ptr<int64_t>()[i * names.size() + j]; }

  Table table(const std::string& corner) const {
    Table table = {{corner}};
    for (const std::string& name : names) table[0].push_back(name);
    for (size_t i = 0; i < names.size(); ++i) {
      table.push_back({names[i]});
      for (size_t j = 0; j < names.size(); ++j) table.back().push_back(fmt::format("{}", at(i, j)));
    }
    return table;
  }

  /// The `most` most frequent mistakes, of equally frequent ones the first by true class.
  Table mistakes(size_t most) const {
    std::vector<std::tuple<int64_t, size_t, size_t>> all;  // minus the count: ascending is the order wanted
    for (size_t i = 0; i < names.size(); ++i)
      for (size_t j = 0; j < names.size(); ++j)
        if (i != j && at(i, j) > 0) all.emplace_back(-at(i, j), i, j);
    std::sort(all.begin(), all.end());
    Table table = {{"true", "found", "count"}};
    for (size_t k = 0; k < std::min(most, all.size()); ++k) {
      const auto& [count, i, j] = all[k];
      table.push_back({names[i], names[j], fmt::format("{}", -count)});
    }
    return table;
  }
};

void show(const Confusion& confusion, const std::string& file) {
  constexpr size_t kWhole = 20, kMistakes = 10;
  if (confusion.names.size() <= kWhole) {
    fmt::print("\n{}", render_text(confusion.table("true \\ found")));
  } else if (const Table mistakes = confusion.mistakes(kMistakes); mistakes.size() > 1) {
    fmt::print("\nThe most frequent mistakes{}:\n{}", file.empty() ? "; --confusion FILE writes the whole table" : "",
               render_text(mistakes));
  }
  if (file.empty()) return;
  std::string text;
  for (const auto& row : confusion.table("true\\found")) {
    for (size_t j = 0; j < row.size(); ++j) text += (j > 0 ? "," : "") + csv_cell(row[j]);
    text += "\n";
  }
  write_file_atomic(file, text);
  fmt::print("wrote   {}\n", file);
}

void print_metrics(const EvalMetrics& metrics, const std::string& unread) {
  for (const auto& [name, value] : metrics) fmt::print("{:<16} {:.6g}\n", name, value);
  if (!unread.empty()) fmt::print("{}\n", unread);
}

/// A classifier: the metrics, and which class is taken for which.
void run_classifier(const Options& o) {
  const LoadedImageModel<DeiT> loaded = load_deit(o.checkpoint, o.apply(), o.raw);
  const Recipe& recipe = loaded.recipe;
  const ModelClasses classes{recipe.model.classes, Checkpoint(loaded.checkpoint).state().classes};
  std::shared_ptr<const ImageSet> set = o.data.empty() ? image_sets_of(recipe).validation : make_folder_set(o.data);
  // The run's own data, too: its folders may be others by now.
  if (!o.data.empty() || !classes.names.empty())
    set = classes_of_model(set, classes, o.data.empty() ? "data.images " + recipe.data.images : "--data " + o.data);
  Confusion confusion{ModelClasses{classes.count, set->class_names()}.all_names(), {}};
  const auto unread = std::make_shared<UnreadPictures>();
  set = watched(spread_over(set, o.batches * recipe.train.batch_size), unread);
  fmt::print("checkpoint {} (step {}{}), {}\n", loaded.checkpoint, loaded.step,
             loaded.averaged ? ", averaged weights" : "", set->describe());
  std::fflush(stdout);
  const EvalMetrics found = evaluate_deit(*loaded.model, *set, recipe, &confusion.counts);
  print_metrics(found, unread->describe());
  show(confusion, o.confusion);
}

/// A diffusion model: what training's evaluation finds.
void run_diffusion(const Options& o) {
  const Checkpoint checkpoint = find_checkpoint(o.checkpoint);
  Recipe recipe = checkpoint.recipe();
  recipe.eval.batches = o.batches;
  if (!o.data.empty() && recipe.data.source != "folder")
    fail(
        "--data {}: this diffusion model learned from {}, not from folders; to judge what it draws, see siamese "
        "sample --singles and siamese compare-images",
        o.data, recipe.data.source);
  if (!o.data.empty()) recipe.data.validation_images = o.data;
  const std::unique_ptr<Task> task = make_task(recipe, o.apply());
  const bool averaged = !o.raw && checkpoint.has("ema.safetensors");
  {
    const at::NoGradGuard no_grad;
    load_tensors(checkpoint.open(averaged ? "ema.safetensors" : "model.safetensors"), named(task->params()));
  }
  fmt::print("checkpoint {} (step {}{}), {}\n", checkpoint.folder(), checkpoint.state().step,
             averaged ? ", averaged weights" : "", o.data.empty() ? "the run's own validation data" : o.data);
  std::fflush(stdout);
  const EvalMetrics found = task->evaluate();
  print_metrics(found, task->data_notes());
}

void run(const Options& o) {
  const std::string family = family_of(o.checkpoint);
  if (!o.confusion.empty() && family != "deit")
    fail("--confusion {}: {} is a model of family {}, not a classifier", o.confusion, o.checkpoint, family);
  if (const auto folder = std::filesystem::path(o.confusion).parent_path();
      !folder.empty() && !std::filesystem::is_directory(folder))
    fail("--confusion {}: {} is not a folder", o.confusion, folder.string());
  if (family == "deit") return run_classifier(o);
  if (family == "dit") return run_diffusion(o);
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
  print_metrics(m, "");
}

}  // namespace

void add_eval(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "eval", "Loss and accuracy of a checkpoint; of a classifier also which class is taken for which");
  sub->add_option("checkpoint", o->checkpoint, "a checkpoint or a run folder (its newest checkpoint)")->required();
  sub->add_option("--data", o->data,
                  "a file (an image model: a folder of class folders) instead of the run's own validation data");
  sub->add_option("--dtype", o->dtype, "what --data holds: text, uint16 or uint32 (default: as the model's own data)")
      ->check(CLI::IsMember({"text", "uint16", "uint32"}));
  sub->add_option("--batches", o->batches, "validation batches (0: all)")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  sub->add_option("--problems", o->problems, "held-out problems for exact match")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  sub->add_flag("--ema", o->ema, "use the averaged weights of a language model");
  sub->add_flag("--raw", o->raw, "an image model: not the averaged weights, which are used where there are some");
  sub->add_option("--confusion", o->confusion, "a classifier: CSV file to write which class is taken for which");
  o->add_to(sub);
  sub->footer(
      "Examples:\n  siamese eval runs/tiny --data other_book.txt\n"
      "  siamese eval runs/deit-cifar10 --data pictures --confusion table.csv");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
