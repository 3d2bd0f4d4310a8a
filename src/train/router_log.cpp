#include "train/router_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "util/error.h"

namespace siamese {

RouterLog::RouterLog(const ModelConfig& config, int64_t mixtures)
    : experts_(config.moe.experts), first_block_(config.moe.dense_blocks) {
  for (int64_t i = 0; i < mixtures; ++i) sum_.blocks.push_back(first_block_ + i);
  sum_.loads.assign(static_cast<size_t>(mixtures), std::vector<int64_t>(static_cast<size_t>(experts_), 0));
}

EvalMetrics RouterLog::add(const std::vector<double>& found) {
  const size_t experts = static_cast<size_t>(experts_), row = experts + 2, mixtures = sum_.loads.size();
  if (found.size() != 2 + mixtures * row)
    fail("a step brought {} numbers of its routers instead of {}", found.size(), 2 + mixtures * row);
  double sent = 0, dropped = 0, entropy = 0, least = INFINITY, most = 0;
  int64_t dead = 0;
  for (size_t i = 0; i < mixtures; ++i) {
    const double* load = found.data() + 2 + i * row;
    double all = 0;
    for (size_t e = 0; e < experts; ++e) all += load[e];
    const double mean = all / static_cast<double>(experts);
    for (size_t e = 0; e < experts; ++e) {
      sum_.loads[i][e] += std::llround(load[e]);
      dead += load[e] == 0;
      least = std::min(least, load[e] / mean);
      most = std::max(most, load[e] / mean);
    }
    sent += all;
    dropped += load[experts];
    entropy += load[experts + 1];
  }
  ++sum_.steps;
  const double undecided = experts_ > 1 ? std::log(static_cast<double>(experts_)) : 1.0;
  return {{"balance_loss", found[0]},
          {"router_z", found[1]},
          {"router_entropy", entropy / static_cast<double>(mixtures) / undecided},
          {"dropped", dropped / sent},
          {"load_min", least},
          {"load_max", most},
          {"dead_experts", static_cast<double>(dead)}};
}

ExpertLoad RouterLog::take() {
  ExpertLoad taken = sum_;
  sum_.steps = 0;
  for (auto& loads : sum_.loads) std::fill(loads.begin(), loads.end(), 0);
  return taken;
}

}  // namespace siamese
