#include "util/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace siamese {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

struct Decoded {
  uint32_t code;
  size_t length;  // 0: the first byte does not begin a valid UTF-8 character
};

Decoded decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {first, 0};
  uint32_t code = first & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {first, 0};
    code = (code << 6) | (byte(i) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (overlong || surrogate || code > 0x10ffff) return {first, 0};
  return {code, length};
}

/// Beyond ASCII these are the C1 controls, line separators and direction overrides: all can garble a terminal line.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t best_distance = word.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    // The difference in length bounds the distance from below: skips most of the work, and absurdly long names.
    const size_t longer = std::max(word.size(), candidate.size()), shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= best_distance) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = &candidate;
  }
  return best ? *best : std::string();
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  while (!text.empty()) {
    const auto [code, length] = decode_utf8(text);
    std::string piece;
    if (length == 0 || (length == 1 && is_control(code))) {
      piece = fmt::format("\\x{:02x}", code);
    } else if (is_control(code)) {
      piece = fmt::format("\\u{:04x}", code);
    } else {
      piece = text.substr(0, length);
    }
    if (piece.size() > limit - out.size()) return out + "…";
    out += piece;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string human_bytes(double bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 0) return "-" + human_bytes(-bytes);
  size_t unit = 0;
  // 1023.95 rather than 1024: what would be printed as "1024.0 KiB" is "1.0 MiB".
  for (; bytes >= 1023.95 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

std::string human_count(double count) {
  constexpr std::array units = {"", "k", "M", "B", "T"};
  if (count < 0) return "-" + human_count(-count);
  size_t unit = 0;
  for (; count >= 999.5 && unit + 1 < units.size(); ++unit) count /= 1000;
  if (unit == 0) return count == std::floor(count) ? fmt::format("{:.0f}", count) : fmt::format("{:.3g}", count);
  const int decimals = count < 9.995 ? 2 : count < 99.95 ? 1 : 0;  // three digits in all
  return fmt::format("{:.{}f}{}", count, decimals, units[unit]);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0) return "-" + human_seconds(-seconds);
  const double whole = std::round(seconds);
  if (whole < 60) return fmt::format("{:.0f}s", whole);
  if (whole < 3600) return fmt::format("{:.0f}m {:02.0f}s", std::floor(whole / 60), std::fmod(whole, 60));
  const double minutes = std::round(whole / 60);
  return fmt::format("{:.0f}h {:02.0f}m", std::floor(minutes / 60), std::fmod(minutes, 60));
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

}  // namespace siamese
