#include "train/lm_task.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "train/documents.h"
#include "train/optimizer.h"
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

LmTask::LmTask(Recipe& recipe, at::Device device) : recipe_(recipe), device_(device) {
  source_ = make_source(recipe.data, recipe.train.sequence_length, static_cast<uint64_t>(recipe.train.seed));
  settle_vocabulary(recipe, *source_);
  recipe_ = recipe;
  model_ = make_lm(recipe_, device);
  if (model_->mixtures() > 0) log_.emplace(recipe_.model, model_->mixtures());
  const TrainConfig& t = recipe_.train;
  if (device.is_cuda())
    copier_.emplace(*gpu_tools(), device,
                    BatchShape{t.batch_size, t.sequence_length + 1, t.micro_batch_size, recipe_.data.document_masking,
                               source_->eos()});
}

void LmTask::start(int64_t step) {
  const TrainConfig& t = recipe_.train;
  next_.reset();
  loader_ = std::make_unique<Loader>(*source_, t.batch_size, t.sequence_length, step, t.steps);
}

/// Takes the loader's next batch; a GPU's copy of it begins.
void LmTask::take_next() {
  next_ = loader_->next();
  if (copier_) copier_->send(next_->ids);
}

void LmTask::load() {
  if (!next_) take_next();
  batch_ = *std::move(next_);
  next_.reset();
  if (copier_) copier_->place();
}

void LmTask::load_ahead() {
  // Never waits: a batch that is late, or bad, is for the step that needs it.
  if (copier_ && !next_ && loader_->ready()) take_next();
}

std::pair<at::Tensor, Forward> LmTask::micro_batch(int64_t index) const {
  const TrainConfig& t = recipe_.train;
  const int64_t rows = t.micro_batch_size;
  Forward f;
  f.training = true;
  f.seed = t.seed;
  f.step = batch_.step;
  f.row = index * rows;
  if (copier_) {
    if (recipe_.data.document_masking) copier_->mask(f, index);
    return {copier_->ids(index), f};
  }
  const at::Tensor ids =
      at::from_blob(const_cast<int64_t*>(batch_.ids.data()), {t.batch_size, t.sequence_length + 1}, at::kLong)
          .narrow(0, index * rows, rows);
  if (recipe_.data.document_masking) mask_documents(f, ids.slice(1, 0, t.sequence_length), source_->eos(), device_);
  return {ids, f};
}

at::Tensor LmTask::accumulate(const std::function<void()>& collect) {
  const TrainConfig& t = recipe_.train;
  const int64_t parts = t.batch_size / t.micro_batch_size;
  at::Tensor sum = at::zeros({}, at::TensorOptions().device(device_).dtype(at::kDouble));
  at::Tensor routers = at::zeros({2}, sum.options()), loads;
  for (int64_t i = 0; i < parts; ++i) {
    const auto [ids, forward] = micro_batch(i);
    const LmLoss loss =
        model_->loss(ids, forward, t.z_loss, /*ignore=*/-100, /*scale=*/1.0 / static_cast<double>(parts));
    torch::autograd::backward({loss.total});
    sum += loss.ce.detach();
    if (loss.loads.defined()) {
      const at::Tensor losses = at::stack({loss.balance, loss.router_z}).to(at::kDouble);
      routers += losses / static_cast<double>(parts);
      loads = loads.defined() ? loads + loss.loads : loss.loads;
    }
    collect();
  }
  if (loads.defined()) {
    loads.select(1, recipe_.model.moe.experts + 1).div_(static_cast<double>(parts));  // the entropy is a mean
    loads_ = loads;
    routing_ = at::cat({routers, loads.flatten()});
  }
  return sum / static_cast<double>(parts);
}

void LmTask::updated(const at::Tensor& found) {
  // Nobody busy: no bias moves. So it is after a step that was not finite, without a word to the host.
  if (loads_.defined()) model_->balance_experts(loads_ * (found[kStepBad] == 0));
}

EvalMetrics LmTask::step_metrics(const std::vector<double>& found) { return log_ ? log_->add(found) : EvalMetrics{}; }

ExpertLoad LmTask::take_load() { return log_ ? log_->take() : ExpertLoad{}; }

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
      "model   {} blocks, d {}, {} heads ({} kv), {} ({}), vocabulary {}, {} norm, scheme {}\n", m.n_layers, m.d_model,
      m.n_heads, m.n_kv_heads, feed_forward_words(m), m.activation, m.vocab_size, m.norm, m.scheme);
  text += mixture_line(m) + parameter_table(params(), m);
  text += fmt::format("data    {}\n", source_->describe());
  text +=
      fmt::format("train   {} steps of {} × {} tokens{}, {}, lr {:g} ({}, {} warm-up steps)\n", t.steps, t.batch_size,
                  t.sequence_length,
                  t.micro_batch_size == t.batch_size ? "" : fmt::format(" in micro-batches of {}", t.micro_batch_size),
                  t.precision, t.lr, t.schedule, t.warmup_steps);
  return text;
}

}  // namespace siamese
