// A recipe in the making: layers of files and overrides, and for every key who set it last.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"
#include "recipe/yaml_reader.h"

namespace siamese {

struct Place {
  int layer;          // rises from the innermost base file to the recipe to the overrides (all of them one layer)
  std::string where;  // "recipes/x.yaml:12" or "--set train.lr=1"
};

struct Draft {
  std::string origin;  // the recipe's own file
  Recipe recipe;
  std::map<std::string_view, Place> places = {};  // by Field::path; only what was set explicitly
};

/// Sets what a file says. Keys may be nested or dotted (`init.std: 0.02` below `model:`).
void apply_file(Draft& draft, const YamlNode& root, const Origin& origin, int layer);

/// Sets what `key=value` arguments say; of two for one key the later wins.
void apply_overrides(Draft& draft, const std::vector<std::string>& overrides, int layer);

/// Replaces stand-ins (0, auto) by what they stand for and refuses what cannot work together.
void resolve(Draft& draft);

}  // namespace siamese
