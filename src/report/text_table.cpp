#include <algorithm>

#include "report/report.h"
#include "report/table.h"
#include "util/text.h"
#include "util/utf8.h"

namespace siamese {
namespace {

constexpr size_t kWidestCell = 200;  // bytes; longer is no table any more

std::string aligned(const std::string& cell, int width, bool right) {
  const std::string padding(static_cast<size_t>(std::max(width - display_width(cell), 0)), ' ');
  return right ? padding + cell : cell + padding;
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string render_text(const Table& table) {
  const std::vector<bool> right = numeric_columns(table);
  Table cells = table;
  std::vector<int> widths(right.size(), 0);
  for (auto& row : cells) {
    row.resize(right.size());
    for (size_t column = 0; column < row.size(); ++column) {
      row[column] = printable(row[column], kWidestCell);
      widths[column] = std::max(widths[column], display_width(row[column]));
    }
  }
  std::string out;
  for (size_t row = 0; row < cells.size(); ++row) {
    std::string line, rule;
    for (size_t column = 0; column < cells[row].size(); ++column) {
      const std::string_view gap = column == 0 ? "" : "  ";
      line.append(gap).append(aligned(cells[row][column], widths[column], right[column]));
      rule.append(gap).append(static_cast<size_t>(widths[column]), '-');
    }
    out += without_trailing_spaces(line) + "\n";
    if (row == 0) out += rule + "\n";
  }
  return out;
}

}  // namespace siamese
