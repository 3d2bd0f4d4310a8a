#include "cli/profile.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <vector>

#include "report/report.h"

namespace siamese::cli {
namespace {

/// Without return type, template arguments and parameters, which fill lines and say little.
std::string short_name(std::string name) {
  constexpr size_t kWidth = 70;
  for (const std::string_view noise : {"void ", "(anonymous namespace)::", "at::native::", "siamese::kernels::"})
    for (size_t at = name.find(noise); at != std::string::npos; at = name.find(noise)) name.erase(at, noise.size());
  return name.size() > kWidth ? name.substr(0, kWidth) : name;
}

}  // namespace

std::string profile_kernels(const std::function<void()>& work, int repeats) {
  using namespace torch::autograd::profiler;
  const ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<torch::profiler::impl::ActivityType> activities = {torch::profiler::impl::ActivityType::CUDA,
                                                                    torch::profiler::impl::ActivityType::CPU};
  prepareProfiler(config, activities);
  enableProfiler(config, activities);
  work();
  const auto result = disableProfiler();
  struct Sum {
    double us = 0;
    int count = 0;
  };
  std::map<std::string, Sum> kernels;
  double total = 0;
  for (const KinetoEvent& e : result->events()) {
    if (e.deviceType() != c10::DeviceType::CUDA) continue;
    Sum& sum = kernels[short_name(e.name())];
    sum.us += static_cast<double>(e.durationNs()) / 1e3;
    ++sum.count;
    total += static_cast<double>(e.durationNs()) / 1e3;
  }
  std::vector<std::pair<std::string, Sum>> rows(kernels.begin(), kernels.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  Table table = {{"kernel", "ms", "calls", "us each", "share"}};
  for (const auto& [name, sum] : rows) {
    if (sum.us < 0.001 * total) continue;
    table.push_back({name, fmt::format("{:.3f}", sum.us / 1e3 / repeats), fmt::format("{}", sum.count / repeats),
                     fmt::format("{:.1f}", sum.us / sum.count), fmt::format("{:.1f} %", 100 * sum.us / total)});
  }
  table.push_back({"all", fmt::format("{:.3f}", total / 1e3 / repeats), "", "", ""});
  return render_text(table);
}

}  // namespace siamese::cli
