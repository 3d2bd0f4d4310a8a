// siamese recipe FILE: the resolved recipe.
#include <fmt/format.h>

#include "cli/commands.h"
#include "recipe/recipe.h"
#include "util/error.h"

namespace siamese::cli {

void add_recipe(CLI::App& app) {
  struct Options {
    std::string file;
    std::vector<std::string> set;
    bool keys = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("recipe", "Print a recipe with everything resolved, or all keys there are");
  sub->add_option("file", o->file, "a recipe file or the name of a bundled one");
  sub->add_option("--set", o->set, "override a key: a.b=c (repeatable)")->allow_extra_args(false);
  sub->add_flag("--keys", o->keys, "list every key with its type, default and meaning");
  sub->footer("Example:\n  siamese recipe lm-tiny --set train.lr=3e-3\n  siamese recipe --keys");
  sub->callback([o] {
    if (o->keys) {
      fmt::print("{}", recipe_keys());
    } else if (o->file.empty()) {
      throw UsageError("a recipe or --keys is needed: siamese recipe FILE");
    } else {
      fmt::print("{}", to_yaml(load_recipe(o->file, o->set)));
    }
  });
}

}  // namespace siamese::cli
