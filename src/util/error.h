// Errors the user can act on. Library code throws; only the command line prints and exits.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace siamese {

/// One line that names the file, the key and the value, and says what would be right.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace siamese
