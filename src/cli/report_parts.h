// What the pages of `siamese compare` and `siamese report` have in common.
#pragma once

#include <string>

#include "report/report.h"

namespace siamese::cli {

/// A column or a note that says nothing for any run is left out.
Table without_empty_columns(Table table);

/// The grids of samples in a run folder, oldest first, each under "LABEL, step N"; of more than eight, eight evenly
/// spread with the first and the last.
void add_sample_grids(Report& report, const std::string& folder, const std::string& label);

}  // namespace siamese::cli
