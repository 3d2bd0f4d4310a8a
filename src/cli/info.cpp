// siamese info CHECKPOINT|RECIPE
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "data/source.h"
#include "train/checkpoint.h"
#include "train/device.h"
#include "train/execution.h"
#include "train/lm_task.h"
#include "train/memory.h"
#include "train/models.h"
#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese::cli {
namespace {

std::string model_line(const ModelConfig& m) {
  if (m.family == "lm")
    return fmt::format("{} blocks, d {}, {} heads ({} kv), {}, vocabulary {}", m.n_layers, m.d_model, m.n_heads,
                       m.n_kv_heads, feed_forward_words(m), m.vocab_size);
  return fmt::format("{}, {} blocks, d {}, {} heads, feed-forward {}, {}² pixels in patches of {}², {} classes",
                     m.family, m.n_layers, m.d_model, m.n_heads, m.mlp_hidden_size, m.image_size, m.patch_size,
                     m.classes);
}

void print_recipe(const Recipe& given) {
  select_device("auto");  // so that the memory of a GPU is known, where there is one
  const Recipe recipe = without_data(given);
  const ModelConfig& m = recipe.model;
  auto print = [&](const Params& params) {
    fmt::print("scheme  {}\nmodel   {}\n{}{}", m.scheme, model_line(m), mixture_line(m), parameter_table(params, m));
    for (const at::Device device : {at::Device(at::kCUDA), at::Device(at::kCPU)}) {
      const Recompute policy = recompute_of(recipe, device);
      if (!recompute_serves(policy, device)) continue;
      fmt::print("{}, training\n{}{}", device.is_cpu() ? "on a CPU" : "on a GPU",
                 memory_lines(recipe, params.count(), device),
                 memory_table(plan_memory(recipe, params.count(), policy, device)));
    }
  };
  if (m.family == "deit") {  // on the Meta device: no memory is taken
    print(make_deit(recipe, at::kMeta)->params());
  } else if (m.family == "dit") {
    print(make_dit(recipe, at::kMeta)->params());
  } else {
    print(make_lm(recipe, at::kMeta)->params());
  }
  const bool words = m.family == "lm";
  const double a_step = static_cast<double>(recipe.train.batch_size * (words ? recipe.train.sequence_length : 1));
  const char* unit = words ? "tokens" : "images";
  fmt::print("train   {} steps of {} {}: {} {}\n", recipe.train.steps, human_count(a_step), unit,
             human_count(a_step * static_cast<double>(recipe.train.steps)), unit);
}

struct Options {
  std::string what;
  std::vector<std::string> set;
};

void run(const Options& o) {
  if (!std::filesystem::is_directory(o.what)) return print_recipe(load_recipe(o.what, o.set));
  if (!o.set.empty()) fail("info: --set {} is for a recipe, and {} is a folder", o.set.front(), o.what);
  const Checkpoint c = find_checkpoint(o.what);
  fmt::print("checkpoint {}\nstep    {}\n{}  {}\n", c.folder(), c.state().step,
             c.recipe().model.family == "lm" ? "tokens" : "images", human_count(static_cast<double>(c.state().tokens)));
  if (c.state().validation_loss) fmt::print("validation loss {:.4f}\n", *c.state().validation_loss);
  const auto manifest = nlohmann::json::parse(c.manifest_text());
  fmt::print("written by {}\n", manifest.at("versions").dump());
  for (const auto& [name, file] : manifest.at("files").items())
    fmt::print("file    {} {} xxh64 {}\n", name, human_bytes(file.at("bytes").get<double>()),
               file.at("xxh64").get<std::string>());
  print_recipe(c.recipe());
}

}  // namespace

void add_info(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("info", "What a checkpoint or a recipe is: sizes, parameters, memory");
  sub->add_option("what", o->what, "a checkpoint, a run folder or a recipe")->required();
  sub->add_option("--set", o->set, "override a key of the recipe: a.b=c (repeatable)")->allow_extra_args(false);
  sub->footer(
      "Example:\n  siamese info recipes/lm-400m.yaml\n  siamese info moe-1b-7b --set model.n_layers=8\n"
      "  siamese info runs/tiny");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
