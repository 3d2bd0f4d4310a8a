// Recipes that come with the program.
#pragma once

#include <string>

namespace siamese {

/// The file `name` or `name`.yaml among the bundled recipes, or "".
std::string find_bundled(const std::string& name);

/// Whether `path` is something that can be read as a file (a pipe is, a folder is not).
bool is_file(const std::string& path);

/// "; did you mean 'lm-tiny'? bundled recipes: …"
std::string bundled_hint(const std::string& name);

}  // namespace siamese
