#include "util/utf8.h"

#include <algorithm>
#include <array>

namespace siamese {
namespace {

struct Span {
  char32_t first, last;
};

// Not the whole Unicode tables: what turns up in run labels, samples and messages.
constexpr std::array kZeroWidth = {Span{0x0300, 0x036F}, Span{0x200B, 0x200F}, Span{0x20D0, 0x20FF},
                                   Span{0xFE00, 0xFE0F}, Span{0xFEFF, 0xFEFF}};
constexpr std::array kDoubleWidth = {Span{0x1100, 0x115F},   Span{0x2E80, 0x303E},   Span{0x3041, 0xA4CF},
                                     Span{0xAC00, 0xD7A3},   Span{0xF900, 0xFAFF},   Span{0xFE30, 0xFE6F},
                                     Span{0xFF00, 0xFF60},   Span{0xFFE0, 0xFFE6},   Span{0x1F300, 0x1F64F},
                                     Span{0x1F680, 0x1F6FF}, Span{0x1F900, 0x1F9FF}, Span{0x20000, 0x3FFFD}};

template <size_t N>
bool within(char32_t code, const std::array<Span, N>& spans) {
  return std::any_of(spans.begin(), spans.end(), [&](Span s) { return code >= s.first && code <= s.last; });
}

int code_width(char32_t code) {
  if (within(code, kZeroWidth)) return 0;
  return within(code, kDoubleWidth) ? 2 : 1;
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t start = at++;
  if (lead < 0x80) return lead;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - start < length) return kReplacement;
  char32_t code = lead & (0x7Fu >> length);
  for (size_t i = start + 1; i < start + length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return kReplacement;
    code = (code << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return kReplacement;
  at = start + length;
  return code;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
    return;
  }
  const int tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::array<char32_t, 4> kLead = {0, 0xC0, 0xE0, 0xF0};
  put(kLead[static_cast<size_t>(tail)] | (code >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) put(0x80 | ((code >> (6 * i)) & 0x3F));
}

int display_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) width += code_width(next_code_point(text, at));
  return width;
}

std::string cut_to_width(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= 0) return {};
  int used = 0;
  size_t end = 0;
  for (size_t at = 0; at < text.size(); end = at) {
    used += code_width(next_code_point(text, at));
    if (used > width - 1) break;  // one column stays for the ellipsis
  }
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace siamese
