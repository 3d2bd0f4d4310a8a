#include "train/dit_task.h"

#include <ATen/ATen.h>

#include "models/noise.h"
#include "train/models.h"
#include "train/samples.h"
#include "util/error.h"

namespace siamese {

DitTask::DitTask(Recipe& recipe, at::Device device)
    : ImageTask(recipe, device, /*mixed=*/false),
      diffusion_(recipe.diffusion, variance_for(recipe.model.learn_sigma), 0, device) {
  model_ = make_dit(recipe_, device);
  const ModelConfig& m = recipe_.model;
  const int64_t b = recipe_.train.batch_size;
  const auto on = at::TensorOptions().device(device);
  steps_ = at::zeros({b}, on.dtype(at::kLong));
  known_ = at::zeros({b}, on.dtype(at::kLong));
  noise_ = at::zeros({b, m.channels, m.image_size, m.image_size}, on.dtype(at::kFloat));
}

void DitTask::draw() {
  const NoiseKey key{recipe_.train.seed, step(), step() * recipe_.train.batch_size};
  steps_.copy_(random_steps(steps_.size(0), diffusion_.steps(), device_, key));
  noise_.copy_(normal_noise(noise_.sizes(), at::kFloat, device_, NoiseUse::training, key));
  known_.copy_(labels());
  if (recipe_.model.label_dropout <= 0) return;
  const at::Tensor u = uniform(known_.sizes(), device_, {key.seed, key.step, site_at(kLabelDropout, 0), 0});
  known_.masked_fill_(u < recipe_.model.label_dropout, model_->no_label());
}

ImageTask::PartLoss DitTask::loss(int64_t index, const Forward& forward) const {
  const at::Tensor x0 = rows(images(), index), t = rows(steps_, index), noise = rows(noise_, index);
  const at::Tensor x = diffusion_.q_sample(x0, t, noise);
  const at::Tensor out = model_->predict(x, t, rows(known_, index), forward);
  const DiffusionLosses l = diffusion_.training_losses(out, x0, x, t, noise);
  return {l.loss.mean(), l.mse.detach().mean()};
}

EvalMetrics DitTask::evaluate() const {
  const at::NoGradGuard no_grad;
  const std::shared_ptr<const ImageSet> set = evaluation_set();
  const int64_t all = set->size(), batch = recipe_.train.micro_batch_size;
  const auto number = at::TensorOptions().device(device_).dtype(at::kDouble);
  at::Tensor mse = at::zeros({}, number), vb = at::zeros({}, number);
  int64_t seen = 0;
  for (int64_t i = 0; i < all; i += batch) {
    const auto [x0, labels] = evaluation_batch(*set, recipe_, i, std::min(batch, all - i), device_);
    const int64_t n = labels.size(0);
    if (n == 0) continue;
    seen += n;
    const NoiseKey key{recipe_.train.seed, int64_t{1} << 40, i};
    const at::Tensor t = random_steps(n, diffusion_.steps(), device_, key),
                     noise = normal_noise(x0.sizes(), at::kFloat, device_, NoiseUse::training, key);
    const at::Tensor x = diffusion_.q_sample(x0, t, noise);
    const DiffusionLosses l = diffusion_.training_losses(model_->predict(x, t, labels, {}), x0, x, t, noise);
    mse += l.mse.sum();
    if (l.vb.defined()) vb += l.vb.sum();
  }
  if (seen == 0) fail("none of the {} pictures can be read ({})", all, set->describe());
  const double n = static_cast<double>(seen);
  EvalMetrics found = {{"validation_loss", mse.item<double>() / n}};
  if (recipe_.model.learn_sigma) found.emplace_back("vb", vb.item<double>() / n);
  if (seen < all) found.emplace_back("unreadable", static_cast<double>(all - seen));
  return found;
}

void DitTask::illustrate(const std::string& folder, int64_t step) const {
  SampleRequest request;
  const int64_t classes = std::min<int64_t>(recipe_.model.classes, 10);
  for (int64_t c = 0; c < classes; ++c)
    for (int i = 0; i < 8; ++i) request.labels.push_back(c);
  request.steps = recipe_.diffusion.sample_steps;
  request.cfg = recipe_.diffusion.sample_cfg;
  request.seed = recipe_.train.seed;
  write_sample_grid(fmt::format("{}/samples-{:08}.png", folder, step), sample_pictures(*model_, recipe_, request), 8);
}

}  // namespace siamese
