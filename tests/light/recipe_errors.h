// The one line with which a recipe is refused.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "util/error.h"

namespace siamese::recipe_test {  // all light tests are one program: keep the short names apart

using Overrides = std::vector<std::string>;

inline Recipe parse(const std::string& yaml, const Overrides& overrides = {}) {
  return parse_recipe(yaml, "x.yaml", overrides);
}

/// The message of the Error that `action` must throw.
template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  return "no error";
}

inline std::string error_of(const std::string& yaml, const Overrides& overrides = {}) {
  return message_of([&] { parse(yaml, overrides); });
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace siamese::recipe_test
