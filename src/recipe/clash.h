// Refusing values that do not go together, at the place where the last of them was set.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "recipe/draft.h"
#include "util/error.h"

namespace siamese {

/// Number of the layer that set a key, -1: none did.
inline int layer_of(const Draft& draft, std::string_view path) {
  const auto found = draft.places.find(path);
  return found == draft.places.end() ? -1 : found->second.layer;
}

/// Throws with the place of that one of `keys` that was set last: the likeliest to be wrong.
template <class... Args>
[[noreturn]] void clash(const Draft& draft, std::initializer_list<std::string_view> keys,
                        fmt::format_string<Args...> format, Args&&... args) {
  std::string where = draft.origin;
  int last = -1;
  for (const std::string_view key : keys) {
    if (layer_of(draft, key) <= last) continue;
    last = layer_of(draft, key);
    where = draft.places.at(key).where;
  }
  fail("{}: {}", where, fmt::format(format, std::forward<Args>(args)...));
}

/// What only image models ask of a recipe.
void check_images(const Draft& draft, const Recipe& recipe);

/// Mixtures: keys of a mixture that is not there are refused, or forgotten where `experts: 0` was said after them;
/// sizes that are left open are filled in, and what cannot work is refused.
void settle_mixture(Draft& draft);

}  // namespace siamese
