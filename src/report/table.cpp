#include "report/table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string>

namespace siamese {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_placeholder(std::string_view cell) {
  static constexpr std::array<std::string_view, 8> kWords = {"", "-", "–", "—", "n/a", "nan", "inf", "diverged"};
  return std::find(kWords.begin(), kWords.end(), lower(cell)) != kWords.end();
}

double unit_factor(char unit) {
  switch (unit) {
    case 'k':
      return 1e3;
    case 'M':
      return 1e6;
    case 'G':
      return 1e9;
    default:
      return 1;
  }
}

enum class Better { unknown, low, high };

Better direction(std::string_view header) {
  const std::string name = lower(header);
  const auto mentions = [&](std::string_view word) { return name.find(word) != name.npos; };
  for (const char* word : {"acc", "tokens/s", "images/s", "tok/s", "throughput"}) {
    if (mentions(word)) return Better::high;
  }
  for (const char* word : {"loss", "perplexity", "ppl", "bits"}) {
    if (mentions(word)) return Better::low;
  }
  return Better::unknown;
}

}  // namespace

std::optional<double> cell_number(std::string_view cell) {
  std::string digits;
  for (const char c : cell) {
    if (c != ',') digits += c;
  }
  const size_t first = digits.find_first_not_of("+-.");
  if (first == digits.npos || first > 2 || !std::isdigit(static_cast<unsigned char>(digits[first])))
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  if (end == digits.c_str() || !std::isfinite(value)) return std::nullopt;
  return value * unit_factor(*end);
}

size_t column_count(const Table& table) {
  size_t count = 0;
  for (const auto& row : table) count = std::max(count, row.size());
  return count;
}

std::vector<bool> numeric_columns(const Table& table) {
  std::vector<bool> numeric(column_count(table), false);
  for (size_t column = 0; column < numeric.size(); ++column) {
    bool any = false, all = true;
    for (size_t row = 1; row < table.size(); ++row) {
      if (column >= table[row].size() || is_placeholder(table[row][column])) continue;
      const bool number = cell_number(table[row][column]).has_value();
      any = any || number;
      all = all && number;
    }
    numeric[column] = any && all;
  }
  return numeric;
}

std::vector<size_t> best_rows(const Table& table, size_t column) {
  if (table.empty() || column >= table[0].size()) return {};
  const Better better = direction(table[0][column]);
  if (better == Better::unknown) return {};
  std::vector<std::pair<double, size_t>> values;  // smaller is better
  for (size_t row = 1; row < table.size(); ++row) {
    const auto value = column < table[row].size() ? cell_number(table[row][column]) : std::nullopt;
    if (value) values.emplace_back(better == Better::low ? *value : -*value, row);
  }
  if (values.empty()) return {};
  const double best = std::min_element(values.begin(), values.end())->first;
  std::vector<size_t> rows;
  for (const auto& [value, row] : values) {
    if (value == best) rows.push_back(row);
  }
  return rows.size() < values.size() ? rows : std::vector<size_t>{};
}

}  // namespace siamese
