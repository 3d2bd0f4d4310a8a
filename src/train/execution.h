// How the steps of a recipe run on a device: what is recomputed, whether as a CUDA graph, with which attention.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "nn/recompute.h"
#include "recipe/recipe.h"

namespace siamese {

/// graph_obstacle(recipe), and of mixtures whether the experts have kernels on this device.
GraphObstacle graph_obstacle(const Recipe& recipe, at::Device device);

/// train.recompute with `auto` settled: feed_forward on a GPU, none on a CPU.
Recompute recompute_of(const Recipe& recipe, at::Device device);
const char* recompute_name(Recompute policy);
/// A CPU's kernels keep what a sub-layer reads, and the activation's output.
bool recompute_serves(Recompute policy, at::Device device);

struct Execution {
  at::Device device = at::kCPU;
  Recompute recompute = Recompute::none;
  bool graph = false;          // the step is captured as a CUDA graph once it is warm
  bool deterministic = true;   // the same recipe gives the same losses digit for digit; always on a CPU
  std::string attention = "";  // cudnn+own | own | cudnn | flash | plain on a GPU; "" on a CPU
  std::string attention_why = "";

  /// "not deterministic, attention cudnn, steps as a CUDA graph"
  std::string describe() const;
  /// The same and the versions of everything, for run.json; `step`: where this process begins.
  std::string json(int64_t step) const;
};

/// Throws Error naming the key where a recipe demands what the device cannot do. Who attends is left open.
Execution check_execution(const Recipe& recipe, at::Device device);
/// The same, and makes LibTorch's algorithms deterministic where the recipe asks for it: call it before the first use
/// of a GPU.
Execution prepare_execution(const Recipe& recipe, at::Device device);

}  // namespace siamese
