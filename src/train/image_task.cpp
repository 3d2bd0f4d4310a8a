#include "train/image_task.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "images/latent_set.h"
#include "images/numbered_set.h"
#include "train/deit_task.h"
#include "train/dit_task.h"
#include "train/lm_task.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

}  // namespace

void settle_classes(Recipe& recipe, int64_t found) {
  int64_t& classes = recipe.model.classes;
  if (classes == 0) classes = found;
  if (classes < found) fail("model.classes is {} but the data has {}", classes, found);
}

ImageSets image_sets_of(const Recipe& recipe) {
  const ModelConfig& m = recipe.model;
  if (recipe.data.source == "latents")
    return make_latent_sets(recipe.data, m.channels, m.image_size, recipe.diffusion.latent_scale);
  ImageSets sets = make_image_sets(recipe.data, m.image_size, static_cast<uint64_t>(recipe.train.seed));
  // Every evaluation looks at the same pictures; the loader keeps those of training itself.
  const Transform transform(recipe.augment, static_cast<int>(m.image_size), static_cast<int>(m.channels));
  sets.validation = with_cache(sets.validation, recipe.data.cache, transform.least_side());
  return sets;
}

EvaluationBatch evaluation_batch(const ImageSet& set, const Recipe& recipe, int64_t first, int64_t count,
                                 at::Device device) {
  const ModelConfig& m = recipe.model;
  const int size = static_cast<int>(m.image_size), channels = static_cast<int>(m.channels);
  ImageBatch b = validation_batch(set, Transform(recipe.augment, size, set.pictures() ? channels : 3), first, count,
                                  size, channels, recipe.data.workers, recipe.data.corrupt == "skip");
  const int64_t n = static_cast<int64_t>(b.labels.size());
  // Copied before the batch goes: .to alone would share its memory on a CPU.
  return {at::from_blob(b.images.data(), {n, m.channels, m.image_size, m.image_size}, at::kFloat)
              .to(device, at::kFloat, false, true),
          at::from_blob(b.labels.data(), {n}, at::kLong).to(device, at::kLong, false, true)};
}

std::unique_ptr<Task> make_task(Recipe& recipe, at::Device device) {
  if (recipe.model.family == "deit") return std::make_unique<DeitTask>(recipe, device);
  if (recipe.model.family == "dit") return std::make_unique<DitTask>(recipe, device);
  return std::make_unique<LmTask>(recipe, device);
}

ImageTask::ImageTask(Recipe& recipe, at::Device device, bool mixed) : recipe_(recipe), device_(device), mixed_(mixed) {
  sets_ = image_sets_of(recipe);
  settle_classes(recipe, static_cast<int64_t>(sets_.train->class_names().size()));
  if (const auto found = static_cast<int64_t>(sets_.validation->class_names().size()); found > recipe.model.classes)
    fail("data.validation_images: {} has labels up to {}, the model {} classes", sets_.validation->describe(),
         found - 1, recipe.model.classes);
  recipe_ = recipe;
  for (const std::string& name : sets_.train->class_names()) classes_.push_back(class_name(name));
  sets_.validation = watched(sets_.validation, unread_);
  const ModelConfig& m = recipe_.model;
  const int64_t b = recipe_.train.batch_size;
  std::vector<TensorCopier::Part> parts = {{{b, m.channels, m.image_size, m.image_size}, at::kFloat}, {{b}, at::kLong}};
  if (mixed) parts.push_back({{b, m.classes}, at::kFloat});
  copier_.emplace(device, parts);
}

void ImageTask::start(int64_t step) {
  const ModelConfig& m = recipe_.model;
  ImageLoaderOptions o;
  o.batch_size = recipe_.train.batch_size, o.classes = m.classes;
  o.first_step = step, o.end_step = recipe_.train.steps;
  o.size = static_cast<int>(m.image_size), o.channels = static_cast<int>(m.channels);
  o.seed = static_cast<uint64_t>(recipe_.train.seed);
  o.shuffle = recipe_.data.shuffle;
  o.targets = mixed_;
  next_.reset();
  loader_ = std::make_unique<ImageLoader>(sets_.train, recipe_.data, recipe_.augment, o);
}

void ImageTask::take_next() {
  ImageBatch batch = loader_->next();
  std::vector<std::span<const std::byte>> values = {bytes(batch.images), bytes(batch.labels)};
  if (mixed_) values.push_back(bytes(batch.targets));
  copier_->send(values);
  next_ = batch.step;
  loader_->recycle(std::move(batch));
}

void ImageTask::load() {
  if (!next_) take_next();
  step_ = *next_;
  next_.reset();
  copier_->place();
  draw();
}

void ImageTask::load_ahead() {
  // Never waits: a batch that is late, or bad, is for the step that needs it.
  if (device_.is_cuda() && !next_ && loader_->ready()) take_next();
}

Forward ImageTask::forward(int64_t index) const {
  Forward f;
  f.training = true;
  f.seed = recipe_.train.seed;
  f.step = step_;
  f.row = index * recipe_.train.micro_batch_size;
  return f;
}

at::Tensor ImageTask::accumulate(const std::function<void()>& collect) {
  const double n = static_cast<double>(parts());
  at::Tensor sum = at::zeros({}, at::TensorOptions().device(device_).dtype(at::kDouble));
  for (int64_t i = 0; i < parts(); ++i) {
    const PartLoss l = loss(i, forward(i));
    torch::autograd::backward({l.total / n});
    sum += l.reported / n;
    collect();
  }
  return sum;
}

std::string ImageTask::first_bad_value() const {
  const at::NoGradGuard no_grad;
  std::string first;
  for (int64_t i = 0; first.empty() && i < parts(); ++i) {
    Forward f = forward(i);
    f.probe = [&](const std::string& name, const at::Tensor& x) {
      if (first.empty() && !at::isfinite(x).all().item<bool>()) first = name;
    };
    f.see("pictures", rows(images(), i));
    loss(i, f);
  }
  return first;
}

std::string ImageTask::describe() const {
  const ModelConfig& m = recipe_.model;
  const TrainConfig& t = recipe_.train;
  std::string text = fmt::format(
      "model   {}, {} blocks, d {}, {} heads, feed-forward {} ({}), {}² pixels in patches of {}², {} classes, {} norm, "
      "scheme {}\n",
      m.family, m.n_layers, m.d_model, m.n_heads, m.mlp_hidden_size, m.activation, m.image_size, m.patch_size,
      m.classes, m.norm, m.scheme);
  text += parameter_table(params(), recipe_.model);
  text += fmt::format("data    {}; validation {}\n", sets_.train->describe(), sets_.validation->describe());
  const double epochs = static_cast<double>(t.steps * t.batch_size) / static_cast<double>(sets_.train->size()) /
                        static_cast<double>(recipe_.augment.repeats);
  text += fmt::format(
      "train   {} steps of {} images{} ({:.1f} epochs), {}, lr {:g} ({}, {} warm-up steps)\n", t.steps, t.batch_size,
      t.micro_batch_size == t.batch_size ? "" : fmt::format(" in micro-batches of {}", t.micro_batch_size), epochs,
      t.precision, t.lr, t.schedule, t.warmup_steps);
  return text;
}

std::string ImageTask::data_notes() const {
  const std::string unread = unread_->describe("validation image");
  if (!loader_) return unread;
  const LoaderTimes t = loader_->times();
  std::string text = fmt::format("reading {}, augmenting {} (all workers together), waiting for them {}",
                                 human_seconds(t.decode), human_seconds(t.augment), human_seconds(t.waited));
  if (loader_->skipped() > 0)
    text += fmt::format("; {} images could not be read and were left out: {}", loader_->skipped(),
                        join(loader_->skipped_names(), ", "));
  if (!unread.empty()) text += "; " + unread;
  return text;
}

}  // namespace siamese
