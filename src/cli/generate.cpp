// siamese generate CHECKPOINT --prompt "..."
#include <fmt/format.h>

#include <cstdio>

#include "cli/common.h"
#include "data/source.h"
#include "models/generate.h"
#include "util/error.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string checkpoint, prompt, ids;
  SamplingOptions sampling;
  bool no_cache = false, ema = false;
};

/// Models of byte data take text; others take ids.
std::vector<int64_t> prompt_ids(const Options& o, const Recipe& recipe, bool bytes) {
  if (!o.ids.empty()) {
    std::vector<int64_t> ids;
    for (const std::string& part : split(o.ids, ',')) {
      size_t used = 0;
      int64_t id = -1;
      try {
        id = std::stoll(part, &used);
      } catch (const std::exception&) {
      }
      if (used != part.size()) fail("--ids {}: '{}' is not a whole number", o.ids, part);
      ids.push_back(id);
    }
    return ids;
  }
  if (!bytes) fail("this model was trained on {} data: give the prompt as --ids 1,2,3", recipe.data.source);
  return o.prompt.empty() ? std::vector<int64_t>{'\n'} : encode_bytes(o.prompt);
}

void run(const Options& o) {
  const LoadedModel loaded = load_model(o.checkpoint, o.apply(), o.ema);
  const bool bytes = loaded.recipe.data.source != "tokens";
  const std::vector<int64_t> prompt = prompt_ids(o, loaded.recipe, bytes);
  SamplingOptions sampling = o.sampling;
  sampling.cache = !o.no_cache;
  sampling.stop = bytes ? 0 : loaded.recipe.data.eos_id;
  if (bytes) fmt::print("{}", o.prompt);
  generate(*loaded.model, prompt, sampling, [&](int64_t id, const at::Tensor&) {
    if (bytes) {
      std::fputc(static_cast<int>(id), stdout);
    } else {
      fmt::print("{} ", id);
    }
    return std::fflush(stdout) == 0;  // a closed pipe ends the text
  });
  fmt::print("\n");
}

/// CLI::Range lets NaN through.
CLI::Validator number_between(double low, double high) {
  const std::string wanted = fmt::format("FLOAT in [{:g} - {:g}]", low, high);
  auto check = [=](std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return good ? std::string() : fmt::format("Value {} not in range {:g} to {:g}", text, low, high);
  };
  return CLI::Validator(check, wanted);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  SamplingOptions& s = o->sampling;
  s.temperature = 0.8;
  CLI::App* sub = app.add_subcommand("generate", "Write text with a trained model");
  sub->add_option("checkpoint", o->checkpoint, "a checkpoint or a run folder (its newest checkpoint)")->required();
  CLI::Option* prompt = sub->add_option("--prompt", o->prompt, "the text to continue");
  sub->add_option("--ids", o->ids, "the prompt as token ids: 1,2,3")->excludes(prompt);
  sub->add_option("--tokens", s.tokens, "how many tokens to write")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  sub->add_option("--temperature", s.temperature, "0: always the most likely token")
      ->capture_default_str()
      ->check(number_between(0, 100));
  sub->add_option("--top-k", s.top_k, "only the k most likely tokens (0: all)")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  sub->add_option("--top-p", s.top_p, "only the most likely tokens of this total probability")
      ->capture_default_str()
      ->check(number_between(0, 1));
  sub->add_option("--seed", s.seed, "of the random choices")->capture_default_str();
  sub->add_flag("--no-cache", o->no_cache, "compute every step from the beginning");
  sub->add_flag("--ema", o->ema, "use the averaged weights");
  o->add_to(sub);
  sub->footer("Example:\n  siamese generate runs/tiny --prompt \"Mira has\" --temperature 0.7 --seed 3");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
