// What the routers of a language model did, step by step: numbers a step brings back from the device, values for its
// line in metrics.jsonl, and the load of every expert summed over some steps.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/recipe.h"
#include "train/metrics.h"

namespace siamese {

/// Steps whose loads are added up into one line of metrics.jsonl; a checkpoint ends a line as well, so that a resumed
/// run writes the same ones.
constexpr int64_t kLoadSteps = 50;

class RouterLog {
 public:
  RouterLog(const ModelConfig& config, int64_t mixtures);

  /// `found`: balance loss and mean logsumexp², means over mixtures and micro-batches; then, a mixture after the other,
  /// tokens sent to each expert, how many of them were dropped, mean entropy of the scores in nats. Returns
  ///   balance_loss, router_z: as above, not weighted
  ///   router_entropy: mean over mixtures as a share of ln E: 1 is undecided
  ///   dropped: share of all assignments
  ///   load_min, load_max: the least and the most busy expert of any mixture, 1 is the mean
  ///   dead_experts: how many of all mixtures' experts got no token in this step
  EvalMetrics add(const std::vector<double>& found);
  /// Loads since the last call.
  ExpertLoad take();

 private:
  const int64_t experts_, first_block_;
  ExpertLoad sum_;
};

}  // namespace siamese
