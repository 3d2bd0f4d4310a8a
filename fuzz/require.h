// What fuzz targets of readers share.
#pragma once

#include <cstdlib>
#include <string_view>

/// Aborts, so that the fuzzer keeps the input; assert would vanish in a release build.
inline void require(bool condition) {
  if (!condition) std::abort();
}

/// Of an Error: names its input, which is called "fuzz".
inline void check_message(std::string_view message) {
  require(message.starts_with("fuzz: "));
  for (const char c : message) require(static_cast<unsigned char>(c) >= 0x20);  // one line, nothing for the terminal
  require(message.size() < 1000);
}
