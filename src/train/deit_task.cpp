#include "train/deit_task.h"

#include <ATen/ATen.h>

#include "nn/tensor_io.h"
#include "train/checkpoint.h"
#include "train/models.h"
#include "util/error.h"

namespace siamese {
namespace {

/// What is wrong with it is said with its key: the path alone could be any file's.
Checkpoint find_teacher(const std::string& path) {
  try {
    return find_checkpoint(path);
  } catch (const Error& error) {
    fail("distill.teacher: {}", error.what());
  }
}

/// A classifier of ours that looks at the same pictures.
std::unique_ptr<DeiT> load_teacher(const Recipe& student, at::Device device) {
  const Checkpoint checkpoint = find_teacher(student.distill.teacher);
  const Recipe recipe = checkpoint.recipe();
  const ModelConfig &a = recipe.model, &b = student.model;
  if (a.family != "deit") fail("distill.teacher {} is a {}, not a classifier", checkpoint.folder(), a.family);
  if (recipe.augment.normalize != student.augment.normalize)
    fail("distill.teacher {} takes pictures normalised as {}, this model as {}", checkpoint.folder(),
         recipe.augment.normalize, student.augment.normalize);
  if (a.classes != b.classes || a.image_size != b.image_size || a.channels != b.channels)
    fail("distill.teacher {} knows {} classes of {}² × {} pixels, this model {} of {}² × {}", checkpoint.folder(),
         a.classes, a.image_size, a.channels, b.classes, b.image_size, b.channels);
  auto teacher = make_deit(recipe, device);
  const at::NoGradGuard no_grad;
  load_tensors(checkpoint.open(checkpoint.has("ema.safetensors") ? "ema.safetensors" : "model.safetensors"),
               named(teacher->params()));
  return teacher;
}

/// Mean cross entropy against distributions.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return -(targets * at::log_softmax(logits, 1, type)).sum(1).mean();
}

}  // namespace

DeitTask::DeitTask(Recipe& recipe, at::Device device) : ImageTask(recipe, device, /*mixed=*/true) {
  model_ = make_deit(recipe_, device);
  if (recipe_.distill.kind != "none") teacher_ = load_teacher(recipe_, device);
  if (recipe_.model.drop_path > 0)
    path_scales_ = at::ones({2 * recipe_.model.n_layers, recipe_.train.batch_size},
                            at::TensorOptions().device(device).dtype(model_->params().dtype()));
}

void DeitTask::draw() {
  if (!path_scales_.defined()) return;
  const Forward f = ImageTask::forward(0);
  for (int k = 0; k < 2 * recipe_.model.n_layers; ++k)
    path_scales_[k].copy_(path_scale(recipe_.model, k, f, recipe_.train.batch_size, path_scales_.options()));
}

Forward DeitTask::forward(int64_t index) const {
  Forward f = ImageTask::forward(index);
  if (path_scales_.defined())
    f.path_scales = path_scales_.narrow(1, f.row, recipe_.train.micro_batch_size).contiguous();
  return f;
}

at::Tensor DeitTask::taught(const at::Tensor& own, const DeitLogits& logits, const at::Tensor& images) const {
  const DistillConfig& d = recipe_.distill;
  at::Tensor theirs;
  {
    const at::NoGradGuard no_grad;
    theirs = teacher_->logits(images, {}).mean().to(at::kFloat);
  }
  const at::Tensor student = (logits.distilled.defined() ? logits.distilled : logits.classes).to(at::kFloat);
  if (d.kind == "hard") return own * (1 - d.alpha) + at::cross_entropy_loss(student, theirs.argmax(1)) * d.alpha;
  // KL(teacher || student) at a temperature, a mean over all values, as DeiT's code has it.
  const at::Tensor a = at::log_softmax(student / d.temperature, 1, at::kFloat),
                   b = at::log_softmax(theirs / d.temperature, 1, at::kFloat);
  const at::Tensor kl = (b.exp() * (b - a)).sum() * (d.temperature * d.temperature / static_cast<double>(a.numel()));
  return own * (1 - d.alpha) + kl * d.alpha;
}

ImageTask::PartLoss DeitTask::loss(int64_t index, const Forward& forward) const {
  const at::Tensor pictures = rows(images(), index);
  const DeitLogits logits = model_->logits(pictures, forward);
  at::Tensor loss = cross_entropy(logits.classes, rows(targets(), index));
  if (teacher_) {
    loss = taught(loss, logits, pictures);
  } else if (logits.distilled.defined()) {  // a second head without a teacher learns from the labels, too
    loss = (loss + cross_entropy(logits.distilled, rows(targets(), index))) / 2;
  }
  return {loss, loss.detach()};
}

EvalMetrics DeitTask::evaluate() const { return evaluate_deit(*model_, *evaluation_set(), recipe_); }

EvalMetrics evaluate_deit(const DeiT& model, const ImageSet& set, const Recipe& recipe, at::Tensor* confusion) {
  const at::NoGradGuard no_grad;
  const ModelConfig& m = recipe.model;
  const int64_t all = set.size(), batch = std::max<int64_t>(1, recipe.train.micro_batch_size),
                top = std::min<int64_t>(5, m.classes);
  const at::Device device = model.params().device();
  const auto number = at::TensorOptions().device(device).dtype(at::kDouble);
  at::Tensor loss = at::zeros({}, number), first = at::zeros({}, number), five = at::zeros({}, number);
  at::Tensor counts = at::zeros({m.classes * m.classes}, number);
  int64_t seen = 0;
  for (int64_t i = 0; i < all; i += batch) {
    const auto [pictures, labels] = evaluation_batch(set, recipe, i, std::min(batch, all - i), device);
    const int64_t n = labels.size(0);
    if (n == 0) continue;
    seen += n;
    const at::Tensor logits = model.logits(pictures, {}).mean().to(at::kFloat);
    const at::Tensor best = std::get<1>(logits.topk(top, 1)), hit = best == labels.unsqueeze(1);
    loss += at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
    first += hit.select(1, 0).sum();
    five += hit.any(1).sum();
    counts.index_add_(0, labels * m.classes + best.select(1, 0), at::ones({n}, number));
  }
  if (seen == 0) fail("none of the {} pictures can be read ({})", all, set.describe());
  if (confusion != nullptr) *confusion = counts.view({m.classes, m.classes}).to(at::kCPU, at::kLong);
  const double n = static_cast<double>(seen);
  EvalMetrics m_found = {{"validation_loss", loss.item<double>() / n},
                         {"accuracy", first.item<double>() / n},
                         {"top5", five.item<double>() / n}};
  if (seen < all) m_found.emplace_back("unreadable", static_cast<double>(all - seen));
  return m_found;
}

}  // namespace siamese
