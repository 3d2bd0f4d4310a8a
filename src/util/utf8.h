// UTF-8 for things people look at: columns in a terminal, text in a page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace siamese {

/// Stands for every byte that is not text: half a character in a model's sample, a stray escape code in a file name.
inline constexpr char32_t kReplacement = 0xFFFD;

/// Decodes the character at `at` and moves `at` past it. Malformed input gives kReplacement and moves one byte, so a
/// loop over any bytes ends. `at` must be inside `text`.
char32_t next_code_point(std::string_view text, size_t& at);

void append_utf8(std::string& out, char32_t code);

/// Terminal columns: 0 for combining marks, 2 for East Asian wide characters and emoji, else 1. Simple cases only.
int display_width(std::string_view text);

/// At most `width` columns; a cut text ends in "…".
std::string cut_to_width(std::string_view text, int width);

}  // namespace siamese
