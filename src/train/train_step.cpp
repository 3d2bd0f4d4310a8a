#include "train/train_step.h"

#include <ATen/ATen.h>

namespace siamese {

TrainStep::TrainStep(Task& task, Optimizer& optimizer, bool graph) : task_(task), optimizer_(optimizer) {
  if (graph) graph_ = gpu_tools()->make_graph();
}

at::Tensor TrainStep::run(int64_t step, double lr) {
  task_.load();
  optimizer_.plan(lr, step + 1);
  const auto work = [&] {
    found_ = optimizer_.apply(task_.accumulate([&] { optimizer_.collect(); }));
    task_.updated(found_);
    if (const at::Tensor more = task_.found(); more.defined()) found_ = at::cat({found_, more});
  };
  run_step(graph_.get(), work);
  task_.load_ahead();
  return found_;
}

void TrainStep::drop_graph() {
  if (graph_ == nullptr) return;
  gpu_tools()->synchronize();
  graph_.reset();
  gpu_tools()->release();
}

}  // namespace siamese
