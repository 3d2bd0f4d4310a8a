#include "train/step_runner.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "train/models.h"

namespace siamese {
namespace {

/// Whole numbers 0 … below - 1.
at::Tensor random_numbers(at::IntArrayRef shape, int64_t below, at::Device device, uint32_t use) {
  const at::Tensor u = uniform(shape, device, {1, 0, site_at(kTestSite, use), 0});
  return (u * static_cast<double>(below)).to(at::kLong).clamp_max(below - 1);
}

Forward training() {
  Forward forward;
  forward.training = true;
  return forward;
}

at::Tensor random_pictures(const Recipe& recipe, at::Device device) {
  const ModelConfig& m = recipe.model;
  at::Tensor x = at::empty({recipe.train.micro_batch_size, m.channels, m.image_size, m.image_size},
                           at::TensorOptions().device(device).dtype(at::kFloat));
  truncated_normal_(x, 1.0, 0.0, {1, 0, site_at(kTestSite, 1), 0});
  return x;
}

}  // namespace

StepRunner::Loss StepRunner::language(at::Device device) {
  const TrainConfig& t = recipe_.train;
  auto model = std::shared_ptr<LanguageModel>(make_lm(recipe_, device));
  model_ = model, params_ = &model->params();
  const at::Tensor ids =
      random_numbers({t.micro_batch_size, t.sequence_length + 1}, recipe_.model.vocab_size, device, 0);
  return [this, model = model.get(), ids] {
    const LmLoss loss =
        model->loss(ids, training(), recipe_.train.z_loss, /*ignore=*/-100, 1.0 / static_cast<double>(parts_));
    return std::pair(loss.total, loss.ce.detach());
  };
}

StepRunner::Loss StepRunner::classifier(at::Device device) {
  auto model = std::shared_ptr<DeiT>(make_deit(recipe_, device));
  model_ = model, params_ = &model->params();
  const at::Tensor x = random_pictures(recipe_, device),
                   labels = random_numbers({x.size(0)}, recipe_.model.classes, device, 0);
  return [this, model = model.get(), x, labels] {
    const at::Tensor loss = at::cross_entropy_loss(model->logits(x, training()).mean().to(at::kFloat), labels);
    return share_of(loss);
  };
}

StepRunner::Loss StepRunner::diffusion(at::Device device) {
  auto model = std::shared_ptr<DiT>(make_dit(recipe_, device));
  model_ = model, params_ = &model->params();
  const at::Tensor x = random_pictures(recipe_, device), t = random_numbers({x.size(0)}, 1000, device, 2),
                   labels = random_numbers({x.size(0)}, recipe_.model.classes, device, 0);
  return [this, model = model.get(), x, t, labels] {
    const at::Tensor loss = model->predict(x, t, labels, training()).to(at::kFloat).square().mean();
    return share_of(loss);
  };
}

StepRunner::StepRunner(const Recipe& recipe, at::Device device, bool graph, int64_t parts)
    : recipe_(recipe), parts_(parts) {
  const std::string& family = recipe_.model.family;
  loss_ = family == "deit" ? classifier(device) : family == "dit" ? diffusion(device) : language(device);
  params_->initialise(recipe_.train.seed);
  optimizer_ = std::make_unique<Optimizer>(*params_, recipe_.train);
  if (graph && device.is_cuda() && gpu_tools() != nullptr) graph_ = gpu_tools()->make_graph();
}

StepRunner::~StepRunner() = default;

std::pair<at::Tensor, at::Tensor> StepRunner::share_of(const at::Tensor& loss) const {
  return {parts_ > 1 ? loss / parts_ : loss, loss.detach()};
}

void StepRunner::differentiate() {
  for (int64_t i = 0; i < parts_; ++i) {
    const auto [total, reported] = loss_();
    torch::autograd::backward({total});
    optimizer_->collect();
    reported_ = reported.to(at::kDouble);
  }
}

void StepRunner::update(int64_t number) {
  optimizer_->plan(recipe_.train.lr, number);
  found_ = optimizer_->apply(reported_);
}

at::Tensor StepRunner::step(int64_t number) {
  optimizer_->plan(recipe_.train.lr, number);
  run_step(graph_.get(), [&] {
    differentiate();
    found_ = optimizer_->apply(reported_);
  });
  return found_;
}

}  // namespace siamese
