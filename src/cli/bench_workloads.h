// What `siamese bench` times: workloads with names, or any recipe.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_rows.h"

namespace siamese::cli {

/// A row a scheme of `schemes` (comma-separated) with its recipe, of `parts` micro-batches a step. Throws Error where
/// the device or bench's random inputs do not do for it.
std::vector<Row> rows_of(const std::string& workload, const std::string& schemes, const std::vector<std::string>& set,
                         int64_t parts, at::Device device);

/// Says on stderr where a plan of the rows is more than the machine or the GPU has.
void warn_of_memory(const std::string& workload, const std::vector<Row>& rows, at::Device device);

}  // namespace siamese::cli
