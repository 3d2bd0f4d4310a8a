// The load of every expert as a coloured table: rows are blocks, columns experts.
#pragma once

#include <string>

#include "report/report.h"

namespace siamese {

/// A figure, or "" where there is nothing to show. Loads are shown as shares of their block's mean: white is the mean,
/// red less, blue more; small ones also as numbers.
std::string render_heatmap(const ExpertHeat& heat, const std::string& label);

}  // namespace siamese
