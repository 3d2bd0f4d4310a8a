#include "train/step_runner.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "train/lm_task.h"

namespace siamese {

StepRunner::StepRunner(const Recipe& recipe, at::Device device, bool graph) : recipe_(recipe) {
  const TrainConfig& t = recipe_.train;
  model_ = make_lm(recipe_, device);
  model_->params().initialise(t.seed);
  optimizer_ = std::make_unique<Optimizer>(model_->params(), t);
  if (graph && device.is_cuda() && gpu_tools() != nullptr) graph_ = gpu_tools()->make_graph();
  const int64_t vocabulary = recipe_.model.vocab_size;
  ids_ = (uniform({t.micro_batch_size, t.sequence_length + 1}, device, {1, 0, kTestSite, 0}) *
          static_cast<double>(vocabulary))
             .to(at::kLong)
             .clamp_max(vocabulary - 1);
}

StepRunner::~StepRunner() = default;

at::Tensor StepRunner::step(int64_t number) {
  const auto work = [&] {
    Forward forward;
    forward.training = true;
    const LmLoss loss = model_->loss(ids_, forward, recipe_.train.z_loss);
    torch::autograd::backward({loss.total});
    optimizer_->collect();
    found_ = optimizer_->apply(loss.ce.detach());
  };
  optimizer_->plan(recipe_.train.lr, number);
  run_step(graph_.get(), work);
  return found_;
}

}  // namespace siamese
