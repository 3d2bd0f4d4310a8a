// Text into HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace siamese {

/// Escapes & < > " ' for element text and quoted attributes. Malformed UTF-8 and control characters other than newline
/// and tab become U+FFFD: samples of a byte-level model contain both, and neither is allowed in a page.
std::string escape_markup(std::string_view text);

/// Bytes as a data: URL holds them.
std::string base64(std::string_view bytes);

}  // namespace siamese
