// Where the time of a piece of GPU work goes, kernel by kernel.
#pragma once

#include <functional>
#include <string>

namespace siamese::cli {

/// Runs `work` under LibTorch's profiler; a table of the kernels by time, names shortened. `repeats`: how often `work`
/// does the same, to divide by.
std::string profile_kernels(const std::function<void()>& work, int repeats);

}  // namespace siamese::cli
