// One step of training: batch, forward, backward, clip, update. On a GPU it may run as a CUDA graph, which holds all
// but the batch's way to the device and the plan of the step (learning rate, number); both go before it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ops/gpu_tools.h"
#include "train/optimizer.h"
#include "train/task.h"

namespace siamese {

class TrainStep {
 public:
  TrainStep(Task& task, Optimizer& optimizer, bool graph);

  /// Step `step` (0-based), whose batch is the task's next. Does not wait for a GPU. What it found:
  /// train/optimizer.h, then Task::found.
  at::Tensor run(int64_t step, double lr);
  /// From here on without a graph, whose memory is given back.
  void drop_graph();

 private:
  Task& task_;
  Optimizer& optimizer_;
  std::unique_ptr<StepGraph> graph_;  // null: operation by operation
  at::Tensor found_;
};

}  // namespace siamese
