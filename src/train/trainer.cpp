#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "train/divergence.h"
#include "train/execution.h"
#include "train/image_task.h"
#include "train/memory.h"
#include "train/metrics.h"
#include "train/models.h"
#include "train/readback.h"
#include "train/resume.h"
#include "train/router_log.h"
#include "train/run_products.h"
#include "train/schedule.h"
#include "train/signals.h"
#include "train/train_step.h"
#include "train/validation.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/files.h"
#include "util/progress.h"
#include "util/text.h"

namespace siamese {
namespace {

class Trainer {
 public:
  explicit Trainer(const TrainRequest& request)
      : request_(request),
        recipe_(request.recipe),
        folder_(request.out, request.mode),
        execution_(prepare_execution(recipe_, request.device)),
        task_(make_task(recipe_, request.device)),
        readback_(request.device) {
    begin();
  }

  TrainResult run();

 private:
  void begin();
  void print_start() const;
  void step(int64_t s);
  void arrived(const StepResult& r);
  void drain();
  void tell_memory(int64_t done);
  void write_load(int64_t done);
  void evaluate(int64_t done);
  void illustrate(int64_t done);
  void save(int64_t done, bool with_evaluation);
  [[noreturn]] void stop_on_bad_value(const StepResult& r);
  void require_finite(int64_t done) const;
  std::string advice() const { return divergence_advice(recipe_, folder_.path()); }
  GpuTools* gpu() const { return request_.device.is_cuda() ? gpu_tools() : nullptr; }

  const TrainRequest request_;
  Recipe recipe_;
  RunFolder folder_;
  const Execution execution_;
  const std::unique_ptr<Task> task_;
  std::optional<Optimizer> optimizer_;
  std::optional<TrainStep> step_;
  Readback readback_;
  std::optional<MetricsFile> metrics_;
  std::optional<Progress> progress_;
  int64_t first_ = 0;  // steps done before this process
  int64_t evaluated_at_ = -1, illustrated_at_ = -1, saved_at_ = -1;
  double validation_loss_ = 0, begun_ = 0;
  std::vector<double> speeds_;
  TrainResult result_;
};

/// Fills the weights from the seed, from a checkpoint to resume, or from another run's weights.
void Trainer::begin() {
  if (gpu() != nullptr) {  // nothing of a run before this one counts
    gpu()->release();
    gpu()->reset_peak();
  }
  const bool resume = request_.mode == OpenMode::resume;
  std::optional<Checkpoint> from;
  if (resume && !request_.from.empty()) {
    from = find_checkpoint(request_.from);
  } else if (resume && !list_checkpoints(folder_.path()).empty()) {
    from = find_checkpoint(folder_.path());
  }
  task_->params().initialise(recipe_.train.seed);
  optimizer_.emplace(task_->params(), recipe_.train);
  step_.emplace(*task_, *optimizer_, execution_.graph);
  if (from) {
    first_ = saved_at_ = resume_from(*from, recipe_, *task_, *optimizer_, folder_);
    if (const auto loss = from->state().validation_loss) evaluated_at_ = first_, validation_loss_ = *loss;
  } else if (!request_.init_from.empty()) {
    load_weights(find_checkpoint(request_.init_from).open("model.safetensors"), task_->params());
    optimizer_->adopt_weights();
  }
  // Only now: a mistake in the new run, found above, must not cost the old one (which may be --init-from itself).
  if (request_.mode == OpenMode::overwrite) folder_.clear();
  folder_.store_recipe(recipe_);
  if (first_ < recipe_.train.steps) write_file_atomic(folder_.file("run.json"), execution_.json(first_));
  take_products(folder_, from ? from->folder() : "", gpu());
  metrics_.emplace(folder_.file("metrics.jsonl"), resume ? first_ : -1);
  print_start();
  if (from)
    fmt::print("resume  from {} at step {}\n", from->folder(), first_);
  else if (resume)
    fmt::print("resume  there is no checkpoint in {} yet: from the start\n", folder_.path());
  std::fflush(stdout);
}

void Trainer::print_start() const {
  fmt::print("{}{}", task_->describe(), memory_lines(recipe_, task_->params().count(), request_.device));
  fmt::print("device  {}, {} threads, {}; run folder {}\n", request_.device.str(), at::get_num_threads(),
             execution_.describe(), folder_.path());
}

/// Issues one step; on a GPU results of earlier ones arrive meanwhile.
void Trainer::step(int64_t s) {
  readback_.begin();
  const double lr = learning_rate(recipe_.train, s);
  readback_.end(s, lr, step_->run(s, lr));
  while (readback_.due()) arrived(readback_.take());
}

void Trainer::drain() {
  while (!readback_.empty()) arrived(readback_.take());
}

void Trainer::arrived(const StepResult& r) {
  if (r.bad) stop_on_bad_value(r);
  StepMetrics m;
  m.step = r.step + 1;
  m.loss = r.loss, m.lr = r.lr, m.grad_norm = r.grad_norm;
  m.tokens = m.step * task_->tokens_per_step();
  m.tokens_per_s = static_cast<double>(task_->tokens_per_step()) / r.seconds;
  m.unit = task_->unit();
  m.more = task_->step_metrics(r.more);
  metrics_->write(m);
  if (m.step % kLoadSteps == 0) write_load(m.step);
  speeds_.push_back(m.tokens_per_s);
  result_.loss = m.loss;
  result_.largest_grad_norm = std::max(result_.largest_grad_norm, m.grad_norm);
  progress_->update(m.step, fmt::format("loss {:.4f}  lr {:.2e}  |g| {:.2f}  {} {}s/s  data {:.1f}%", m.loss, m.lr,
                                        m.grad_norm, human_count(m.tokens_per_s), task_->unit(),
                                        100 * task_->waited() / std::max(1e-9, seconds_now() - begun_)));
  tell_memory(m.step);
}

/// What a step took, beside the estimate at the start.
void Trainer::tell_memory(int64_t done) {
  constexpr int64_t kSteady = 3;  // the first step tries kernels
  if (done != first_ + kSteady) return;
  if (const std::string peak = measured_memory(request_.device); !peak.empty())
    progress_->message(fmt::format("memory  {} at the peak of the first {} steps", peak, kSteady));
}

/// What went to which expert since the last such line.
void Trainer::write_load(int64_t done) {
  if (const ExpertLoad load = task_->take_load(); load.steps > 0) metrics_->write(done, load);
}

void Trainer::stop_on_bad_value(const StepResult& r) {
  // On a GPU later steps are under way, without effect: weights and data of the bad one give it once more.
  if (!request_.device.is_cpu()) {
    step_->drop_graph();
    optimizer_->forget();
    task_->start(r.step);
    task_->load();
    task_->accumulate([&] { optimizer_->collect(); });
  }
  std::string culprit = bad_parameter(task_->params());
  if (culprit.empty()) culprit = task_->first_bad_value();
  if (culprit.empty()) {
    culprit = optimizer_->first_bad_gradient();
    if (!culprit.empty()) culprit = "gradient of " + culprit;
  }
  throw Diverged(fmt::format("step {}: {} is not finite; first bad tensor: {}. Nothing was updated{}", r.step + 1,
                             std::isfinite(r.loss) ? "the gradient norm" : "the loss",
                             culprit.empty() ? "not found in a second pass" : culprit, advice()));
}

/// An update by a gradient that is finite may still be too large: nobody could go on from a checkpoint of that.
void Trainer::require_finite(int64_t done) const {
  std::string what = bad_parameter(task_->params());
  if (!what.empty())
    what += " is not finite";
  else if (evaluated_at_ == done && !std::isfinite(validation_loss_))
    what = "the validation loss is not finite, though all weights are";
  if (!what.empty()) throw Diverged(fmt::format("step {}: after it {}; not saved{}", done, what, advice()));
}

/// Where it fails, the weights are saved before the run ends.
void Trainer::evaluate(int64_t done) {
  if (evaluated_at_ == done) return;
  drain();
  EvalMetrics m;
  try {
    m = validate(*task_, *optimizer_, recipe_);
  } catch (const std::exception&) {
    const std::exception_ptr why = std::current_exception();
    std::string saved = "the weights are saved";
    try {
      save(done, false);
    } catch (const std::exception& e) {
      saved = "nor could the weights be saved: " + torch_message(e.what());
    }
    progress_->message(fmt::format("step {}: the evaluation failed; {}", done, saved));
    std::rethrow_exception(why);
  }
  metrics_->write(done, m);
  evaluated_at_ = done;
  validation_loss_ = m.front().second;
  std::string text = fmt::format("step {}:", done);
  for (const auto& [name, value] : m) text += fmt::format(" {} {:.4f}", name, value);
  progress_->message(text);
}

void Trainer::save(int64_t done, bool with_evaluation) {
  if (saved_at_ == done) return;
  drain();
  write_load(done);
  if (with_evaluation) evaluate(done);
  require_finite(done);
  keep_products(folder_, gpu());  // before the checkpoint: none is without them
  CheckpointState state{done, done * task_->tokens_per_step(), {}, to_yaml(recipe_), task_->class_names()};
  if (evaluated_at_ == done) state.validation_loss = validation_loss_;
  save_checkpoint(folder_.path(), state, {named(task_->params()), optimizer_->state(), optimizer_->average()},
                  recipe_.checkpoint);
  saved_at_ = done;
}

TrainResult Trainer::run() {
  const StopSignals signals;
  ProgressOptions options;
  options.terminal = stderr_is_terminal();
  options.every_seconds = 10;
  progress_.emplace("train", recipe_.train.steps, options);
  task_->start(first_);
  begun_ = seconds_now();
  const auto due = [](int64_t every, int64_t done) { return every > 0 && done % every == 0; };
  int64_t done = first_;
  while (done < recipe_.train.steps && StopSignals::received() == 0) {
    step(done++);
    if (due(recipe_.eval.every, done)) evaluate(done);
    if (due(recipe_.checkpoint.every, done) && done < recipe_.train.steps) save(done, true);
    if (due(recipe_.diffusion.sample_every, done)) illustrate(done);
  }
  result_.signal = done < recipe_.train.steps ? StopSignals::received() : 0;
  if (done > first_ || saved_at_ < 0) save(done, result_.signal == 0);
  if (result_.signal == 0) evaluate(done);  // where the run had ended without: its evaluation had failed
  if (result_.signal == 0) illustrate(done);
  progress_->finish();
  result_.step = done;
  result_.seconds = seconds_now() - begun_;
  result_.unit = task_->unit();
  result_.data_notes = task_->data_notes();
  result_.data_wait = task_->waited() / std::max(1e-9, result_.seconds);
  if (!speeds_.empty()) {
    std::nth_element(speeds_.begin(), speeds_.begin() + static_cast<std::ptrdiff_t>(speeds_.size() / 2), speeds_.end());
    result_.tokens_per_s = speeds_[speeds_.size() / 2];
  }
  if (result_.signal != 0)
    fmt::print("stopped by signal {} after step {}, saved.{}\n", result_.signal, done,
               request_.resume_command.empty() ? "" : " Continue with:\n  " + request_.resume_command);
  return result_;
}

void Trainer::illustrate(int64_t done) {
  if (illustrated_at_ == done) return;
  drain();
  if (const std::string why = draw_pictures(*task_, *optimizer_, folder_.path(), done); !why.empty())
    progress_->message(fmt::format("no picture of step {}: {}", done, why));
  illustrated_at_ = done;
}

}  // namespace

TrainResult train(const TrainRequest& request) {
  try {
    return Trainer(request).run();
  } catch (...) {  // the run is gone by now, and its memory with it
    rethrow_with_advice(request.recipe, request.device);
  }
}

}  // namespace siamese
