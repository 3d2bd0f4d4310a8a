// libFuzzer target: any text is either a recipe, which prints and reads back the same, or an Error of one line.
// The input is YAML up to the first byte 0 (which no recipe may hold), then one `key=value` override.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "recipe/recipe.h"
#include "util/error.h"

namespace {

void require(bool good, const char* what, const std::string& detail) {
  if (good) return;
  std::fprintf(stderr, "fuzz_recipe: %s:\n%s\n", what, detail.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  std::vector<std::string> overrides;
  if (end != std::string_view::npos) overrides.emplace_back(input.substr(end + 1));
  siamese::Recipe recipe;
  try {
    recipe = siamese::parse_recipe(input.substr(0, end), "fuzz.yaml", overrides);
  } catch (const siamese::Error& error) {
    const std::string message = error.what();
    require(message.find('\n') == std::string::npos, "more than one line", message);
    require(message.size() < 1000, "a message nobody reads", message);
    return 0;
  }
  const std::string printed = siamese::to_yaml(recipe);
  try {
    require(siamese::parse_recipe(printed, "printed.yaml") == recipe, "reads back differently", printed);
  } catch (const siamese::Error& error) {
    require(false, error.what(), printed);
  }
  return 0;
}
