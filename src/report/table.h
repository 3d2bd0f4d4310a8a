// What the cells of a table are: the numbers in it stand to the right, and some columns have a best one.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "report/report.h"

namespace siamese {

/// The number a cell begins with: "2.314", "1.2M", "12,340", "87.5%", "3.1 ± 0.2". Nothing for other text, NaN and inf.
std::optional<double> cell_number(std::string_view cell);

size_t column_count(const Table& table);

/// Per column: whether all its cells under the header are numbers or placeholders ("", "-", "nan", …), at least one a
/// number.
std::vector<bool> numeric_columns(const Table& table);

/// Rows (indices into the table) holding the best value of a column. Which way is better is known from the header only
/// for losses, accuracies and speeds; other columns have no best one, nor have columns in which all rows are equal.
std::vector<size_t> best_rows(const Table& table, size_t column);

}  // namespace siamese
