#include "recipe/recipe.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "recipe/bundled.h"
#include "recipe/draft.h"
#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
constexpr size_t kMaxChain = 16;

struct Layer {
  Origin origin;
  YamlNode root;
};

std::string shown(const std::string& path) { return printable(path, std::numeric_limits<size_t>::max()); }

const YamlNode* find_extends(const YamlNode& root) {
  if (root.kind != YamlNode::Kind::map) return nullptr;
  const auto found = std::find_if(root.children.begin(), root.children.end(),
                                  [](const YamlNode& entry) { return entry.key == "extends"; });
  return found == root.children.end() ? nullptr : &*found;
}

/// The file that `extends: name` in `file` means: beside it, else bundled.
std::string find_base(const std::string& file, const YamlNode& extends, const std::string& where) {
  const std::string& name = extends.text;
  if (extends.kind != YamlNode::Kind::scalar || name.empty()) fail("{}: extends must be the name of a recipe", where);
  const std::string beside = (std::filesystem::path(file).parent_path() / name).string();
  for (const std::string& path : {beside, beside + ".yaml", find_bundled(name)}) {
    if (!path.empty() && is_file(path)) return path;
  }
  fail("{}: extends '{}': no such recipe{}", where, printable(name), bundled_hint(name));
}

/// One name for a file however it is reached, so that a circle is seen.
std::string identity(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  return error ? path : canonical.string();
}

/// The recipe's own file first, then what it extends, and so on.
std::vector<Layer> read_chain(std::string file) {
  std::vector<Layer> layers;
  std::vector<std::string> names, seen;
  while (true) {
    names.push_back(shown(file));
    seen.push_back(identity(file));
    Origin origin{.name = names.back()};
    YamlNode root = read_yaml(read_file(file, kMaxBytes), origin);
    layers.push_back({std::move(origin), std::move(root)});
    const YamlNode* const extends = find_extends(layers.back().root);
    if (!extends) return layers;
    const std::string where = layers.back().origin.at(extends->line);
    file = find_base(file, *extends, where);
    const bool circle = std::find(seen.begin(), seen.end(), identity(file)) != seen.end();
    if (!circle && layers.size() < kMaxChain) continue;
    names.push_back(shown(file));
    fail("{}: extends {}: {}", where, circle ? "goes in a circle" : fmt::format("more than {} recipes", kMaxChain),
         join(names, " -> "));
  }
}

Recipe combine(const std::vector<Layer>& layers, const std::vector<std::string>& overrides) {
  Draft draft{.origin = layers.front().origin.name, .recipe = {}};
  int layer = 0;
  for (auto it = layers.rbegin(); it != layers.rend(); ++it) apply_file(draft, it->root, it->origin, layer++);
  apply_overrides(draft, overrides, layer);
  resolve(draft);
  return draft.recipe;
}

}  // namespace

Recipe load_recipe(const std::string& file, const std::vector<std::string>& overrides) {
  if (is_file(file) || file.find('/') != std::string::npos) return combine(read_chain(file), overrides);
  const std::string bundled = find_bundled(file);
  if (bundled.empty()) fail("recipe '{}': no such file and no bundled recipe{}", shown(file), bundled_hint(file));
  return combine(read_chain(bundled), overrides);
}

Recipe parse_recipe(std::string_view yaml, const std::string& origin, const std::vector<std::string>& overrides) {
  std::vector<Layer> layers;
  layers.push_back({{.name = shown(origin)}, {}});
  layers[0].root = read_yaml(yaml, layers[0].origin);
  if (const YamlNode* const extends = find_extends(layers[0].root)) {
    fail("{}: extends works in files only", layers[0].origin.at(extends->line));
  }
  return combine(layers, overrides);
}

}  // namespace siamese
