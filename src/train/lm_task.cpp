#include "train/lm_task.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "train/documents.h"
#include "train/execution.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {

void settle_vocabulary(Recipe& recipe, Source& source) {
  int64_t& vocab = recipe.model.vocab_size;
  const int64_t needed = source.vocab_size();
  if (vocab == 0) {
    if (needed == 0) fail("model.vocab_size must be set: token files do not say how many ids there are");
    vocab = needed;
  }
  if (vocab < needed) fail("model.vocab_size is {} but the data has ids up to {}", vocab, needed - 1);
  source.set_vocab_size(vocab);
}

std::unique_ptr<LanguageModel> make_lm(const Recipe& recipe, at::Device device) {
  ModelOptions options;
  options.dtype = recipe.train.precision == "bfloat16" ? at::kBFloat16 : at::kFloat;
  options.stream_dtype = recipe.model.stream_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
  options.device = device;
  options.recompute = recompute_of(recipe, device);
  return std::make_unique<LanguageModel>(recipe.model, options);
}

LmTask::LmTask(Recipe& recipe, at::Device device) : recipe_(recipe), device_(device) {
  source_ = make_source(recipe.data, recipe.train.sequence_length, static_cast<uint64_t>(recipe.train.seed));
  settle_vocabulary(recipe, *source_);
  recipe_ = recipe;
  model_ = make_lm(recipe_, device);
}

void LmTask::start(int64_t step) {
  const TrainConfig& t = recipe_.train;
  loader_ = std::make_unique<Loader>(*source_, t.batch_size, t.sequence_length, step, t.steps);
}

/// The batch as the loader left it: batch_ itself, which lives until the next is taken.
at::Tensor LmTask::host_ids() const {
  const TrainConfig& t = recipe_.train;
  return at::from_blob(const_cast<int64_t*>(batch_.ids.data()), {t.batch_size, t.sequence_length + 1}, at::kLong);
}

void LmTask::load() {
  batch_ = loader_->next();
  if (device_.is_cpu()) {
    ids_ = host_ids();
    return;
  }
  // From pinned memory, which LibTorch reuses once the copy has run: the step does not wait for it.
  const at::Tensor pinned = host_ids().pin_memory();
  if (!ids_.defined()) ids_ = at::empty(pinned.sizes(), pinned.options().device(device_).pinned_memory(false));
  ids_.copy_(pinned, /*non_blocking=*/true);
}

std::pair<at::Tensor, Forward> LmTask::micro_batch(int64_t index) const {
  const int64_t rows = recipe_.train.micro_batch_size, length = recipe_.train.sequence_length;
  Forward f;
  f.training = true;
  f.seed = recipe_.train.seed;
  f.step = batch_.step;
  f.row = index * rows;
  if (recipe_.data.document_masking)
    mask_documents(f, host_ids().narrow(0, index * rows, rows).slice(1, 0, length), source_->eos(), device_);
  return {ids_.narrow(0, index * rows, rows), f};
}

at::Tensor LmTask::accumulate(const std::function<void()>& collect) {
  const TrainConfig& t = recipe_.train;
  const int64_t parts = t.batch_size / t.micro_batch_size;
  at::Tensor sum = at::zeros({}, at::TensorOptions().device(device_).dtype(at::kDouble));
  for (int64_t i = 0; i < parts; ++i) {
    const auto [ids, forward] = micro_batch(i);
    const LmLoss loss =
        model_->loss(ids, forward, t.z_loss, /*ignore=*/-100, /*scale=*/1.0 / static_cast<double>(parts));
    torch::autograd::backward({loss.total});
    sum += loss.ce.detach();
    collect();
  }
  return sum / static_cast<double>(parts);
}

std::string LmTask::first_bad_value() const {
  const at::NoGradGuard no_grad;
  std::string first;
  const TrainConfig& t = recipe_.train;
  for (int64_t i = 0; first.empty() && i < t.batch_size / t.micro_batch_size; ++i) {
    auto [ids, f] = micro_batch(i);
    f.probe = [&](const std::string& name, const at::Tensor& x) {
      if (first.empty() && !at::isfinite(x).all().item<bool>()) first = name;
    };
    model_->loss(ids, f, t.z_loss);
  }
  return first;
}

EvalMetrics LmTask::evaluate() const {
  return evaluate_lm(*model_, *source_, recipe_.data, recipe_.train.sequence_length, recipe_.train.micro_batch_size,
                     recipe_.eval.batches * recipe_.train.batch_size, recipe_.eval.problems);
}

std::string LmTask::describe() const {
  const ModelConfig& m = recipe_.model;
  const TrainConfig& t = recipe_.train;
  std::string text = fmt::format(
      "model   {} blocks, d {}, {} heads ({} kv), feed-forward {} ({}), vocabulary {}, {} norm, scheme {}\n",
      m.n_layers, m.d_model, m.n_heads, m.n_kv_heads, m.mlp_hidden_size, m.activation, m.vocab_size, m.norm, m.scheme);
  text += parameter_table(params());
  text += fmt::format("data    {}\n", source_->describe());
  text +=
      fmt::format("train   {} steps of {} × {} tokens{}, {}, lr {:g} ({}, {} warm-up steps)\n", t.steps, t.batch_size,
                  t.sequence_length,
                  t.micro_batch_size == t.batch_size ? "" : fmt::format(" in micro-batches of {}", t.micro_batch_size),
                  t.precision, t.lr, t.schedule, t.warmup_steps);
  return text;
}

}  // namespace siamese
