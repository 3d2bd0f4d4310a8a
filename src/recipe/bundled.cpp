#include "recipe/bundled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "recipe/recipe.h"
#include "util/text.h"

namespace siamese {
namespace {

std::string& given_folder() {
  static std::string folder;
  return folder;
}

std::string recipe_folder() {
  const char* const variable = std::getenv("SIAMESE_RECIPES");
  return variable && *variable ? variable : given_folder();
}

}  // namespace

void set_recipe_folder(std::string folder) { given_folder() = std::move(folder); }

bool is_file(const std::string& path) {
  std::error_code error;  // a folder we may not enter holds no recipe for us
  const auto status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_directory(status);
}

std::string find_bundled(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || recipe_folder().empty()) return {};
  const std::string path = recipe_folder() + "/" + name;
  if (is_file(path + ".yaml")) return path + ".yaml";
  return name.ends_with(".yaml") && is_file(path) ? path : std::string();
}

std::vector<std::string> bundled_recipes() {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(recipe_folder(), error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".yaml") names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string bundled_hint(const std::string& name) {
  const std::vector<std::string> names = bundled_recipes();
  if (names.empty()) return {};
  const std::string meant = nearest(name, names);
  return fmt::format("; {}bundled recipes: {}", meant.empty() ? "" : fmt::format("did you mean '{}'? ", meant),
                     join(names, ", "));
}

}  // namespace siamese
