// One training step of a language model on a fixed batch of random ids, as the benchmark times it: forward, backward,
// clip and update, eagerly or as a CUDA graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/language_model.h"
#include "ops/gpu_tools.h"
#include "train/optimizer.h"

namespace siamese {

class StepRunner {
 public:
  /// Random ids on the device; `graph` is ignored where there is no GPU.
  StepRunner(const Recipe& recipe, at::Device device, bool graph);
  ~StepRunner();

  /// Step `number` (from 1); does not wait for a GPU. What it found: train/optimizer.h.
  at::Tensor step(int64_t number);
  LanguageModel& model() { return *model_; }

 private:
  Recipe recipe_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepGraph> graph_;
  at::Tensor ids_, found_;
};

}  // namespace siamese
