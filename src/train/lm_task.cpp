#include "train/lm_task.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

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
  options.recompute_blocks = recipe.train.recompute == "block";
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

/// The batch on the device. On the CPU it is batch_ itself, which lives until the next is taken.
at::Tensor LmTask::upload() {
  const TrainConfig& t = recipe_.train;
  const at::Tensor ids = at::from_blob(batch_.ids.data(), {t.batch_size, t.sequence_length + 1}, at::kLong);
  if (device_.is_cpu()) return ids;
  // From pinned memory, which LibTorch reuses once the copy has run: the step does not wait for it.
  return ids.pin_memory().to(device_, at::kLong, /*non_blocking=*/true);
}

at::Tensor LmTask::micro_batch(int64_t index) const {
  return ids_.narrow(0, index * recipe_.train.micro_batch_size, recipe_.train.micro_batch_size);
}

Forward LmTask::forward_of(int64_t step, int64_t row, const at::Tensor& ids) const {
  Forward f;
  f.training = true;
  f.seed = recipe_.train.seed;
  f.step = step;
  f.row = row;
  if (recipe_.data.document_masking) f.documents = document_numbers(ids.slice(1, 0, ids.size(1) - 1), source_->eos());
  return f;
}

at::Tensor LmTask::accumulate(int64_t step, const std::function<void()>& collect) {
  const TrainConfig& t = recipe_.train;
  batch_ = loader_->next();
  ids_ = upload();
  const int64_t parts = t.batch_size / t.micro_batch_size;
  at::Tensor sum = at::zeros({}, at::TensorOptions().device(device_).dtype(at::kDouble));
  for (int64_t i = 0; i < parts; ++i) {
    const at::Tensor ids = micro_batch(i);
    const LmLoss loss = model_->loss(ids, forward_of(step, i * t.micro_batch_size, ids), t.z_loss, /*ignore=*/-100,
                                     /*scale=*/1.0 / static_cast<double>(parts));
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
    const at::Tensor ids = micro_batch(i);
    Forward f = forward_of(batch_.step, i * t.micro_batch_size, ids);
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

double LmTask::activation_bytes() const {
  // Values kept per token: per sub-layer the streams, its input and its output; the projections and their halves;
  // logits.
  const ModelConfig& m = recipe_.model;
  const TrainConfig& t = recipe_.train;
  const double value = t.precision == "bfloat16" ? 2 : 4, stream = m.stream_dtype == "bfloat16" ? 2 : 4;
  const double d = static_cast<double>(m.d_model), hd = d / static_cast<double>(m.n_heads);
  const double streams = m.streams > 0                                                ? static_cast<double>(m.streams)
                         : m.scheme.starts_with("siamese") || m.scheme == "resi_dual" ? 2
                                                                                      : 1;
  const double qkv = hd * static_cast<double>(m.n_heads + 2 * m.n_kv_heads),
               hidden = static_cast<double>(m.mlp_hidden_size);
  const double block = 2 * streams * d * stream + value * (4 * d + 3 * qkv + d + 2.5 * hidden),
               saved = (streams + 1) * d * stream;
  const double blocks = static_cast<double>(m.n_layers), logits = 3 * 4 * static_cast<double>(m.vocab_size);
  const double per_token = (t.recompute == "block" ? blocks * saved + block : blocks * block) + logits;
  return per_token * static_cast<double>(t.micro_batch_size * t.sequence_length);
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
