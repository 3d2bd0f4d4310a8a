// One table says what a recipe may hold. Reading, checking, `--set`, printing and `recipe --keys` all walk it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recipe/recipe.h"

namespace siamese {

using FieldValue = std::variant<int64_t, double, bool, std::string, std::vector<std::string>>;
using FieldSlot = std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*>;

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   // low itself is refused
  bool below_high = false;  // high itself is refused
};

struct Field {
  std::string_view path;  // "train.lr": the member's name from Recipe on
  FieldSlot (*slot)(Recipe&);
  std::string_view help;
  Range range = {};
  std::vector<std::string> words = {};  // a text: the values allowed; empty: any
  std::string_view unset = {};          // what the default stands for, where it is a stand-in such as 0
  std::string_view also = {};           // what other trainers call it; only for suggestions
  // An option that means something only while the text field `owner` has one of `owners`.
  std::string_view owner = {};
  std::vector<std::string> owners = {};
};

/// In the order they are printed; the fields of a section stand together.
const std::vector<Field>& fields();

/// The field of that path, or nullptr.
const Field* find_field(std::string_view path);

/// "train", "model.init".
bool is_section(std::string_view path);

/// The valid key (or section) somebody who wrote `path` most likely meant, or "".
std::string suggest_key(std::string_view path);

FieldValue get(const Field& field, const Recipe& recipe);
void set(const Field& field, Recipe& recipe, FieldValue value);
FieldValue default_of(const Field& field);

}  // namespace siamese
