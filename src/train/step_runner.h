// One training step of a model on a fixed batch of random inputs, as the benchmark times it: forward, backward, clip
// and update, eagerly or as a CUDA graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "nn/params.h"
#include "ops/gpu_tools.h"
#include "recipe/recipe.h"
#include "train/optimizer.h"

namespace siamese {

class StepRunner {
 public:
  /// Random inputs on the device; `graph` is ignored where there is no GPU. A language model's loss is the next
  /// token's, a classifier's the label's, a diffusion model's the mean square of its prediction. A step has `parts`
  /// micro-batches, always the same one.
  StepRunner(const Recipe& recipe, at::Device device, bool graph, int64_t parts = 1);
  ~StepRunner();

  /// Step `number` (from 1); does not wait for a GPU. What it found: train/optimizer.h.
  at::Tensor step(int64_t number);
  /// The two parts of a step by themselves, never as a graph: forward and backward; clip and update.
  void differentiate();
  void update(int64_t number);
  const Params& params() const { return *params_; }

 private:
  /// What is differentiated, and the loss to report.
  using Loss = std::function<std::pair<at::Tensor, at::Tensor>()>;
  /// A micro-batch's part of the step's loss, and the loss itself.
  std::pair<at::Tensor, at::Tensor> share_of(const at::Tensor& loss) const;
  Loss language(at::Device device);
  Loss classifier(at::Device device);
  Loss diffusion(at::Device device);

  Recipe recipe_;
  int64_t parts_;
  std::shared_ptr<void> model_;  // of any family: `loss_` knows which
  Params* params_ = nullptr;
  Loss loss_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepGraph> graph_;
  at::Tensor reported_, found_;
};

}  // namespace siamese
