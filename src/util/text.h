// Small helpers for messages people read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace siamese {

/// The candidate with the smallest edit distance to `word`, or "" when none is near (distance > 1/2 of its length).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `text` fit for a one-line message: control characters and bytes that are not UTF-8 escaped, cut with "…" where
/// it would be longer than `limit` bytes.
std::string printable(std::string_view text, size_t limit = 80);

std::string human_bytes(double bytes);      // 1.5 GiB
std::string human_count(double count);      // 1.23M, 45.6k, 812
std::string human_seconds(double seconds);  // 1h 02m, 3m 20s, 12s; "?" when not finite
std::string join(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace siamese
