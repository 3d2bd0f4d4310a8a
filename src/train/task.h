// What the training loop needs of a model and its data; one implementation a model family.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/params.h"
#include "train/metrics.h"

namespace siamese {

class Task {
 public:
  virtual ~Task() = default;
  virtual Params& params() = 0;
  virtual const Params& params() const = 0;
  /// Start-up print: the model by part, the data.
  virtual std::string describe() const = 0;
  /// Tokens, or what `unit` says instead.
  virtual int64_t tokens_per_step() const = 0;
  virtual std::string unit() const { return "token"; }

  /// Begins to prepare data from `step` (0-based) on.
  virtual void start(int64_t step) = 0;
  /// Takes the next batch; on a GPU it always comes to the same place.
  virtual void load() = 0;
  /// After a step was issued: sends the batch of the next one to a GPU meanwhile, if it is ready. Does not wait.
  virtual void load_ahead() = 0;
  /// Forward and backward over the loaded batch, micro-batch by micro-batch; `collect` is called after each backward.
  /// Returns the mean loss, an fp64 scalar on the parameters' device: nothing waits for a GPU, so that a CUDA graph can
  /// hold it.
  virtual at::Tensor accumulate(const std::function<void()>& collect) = 0;
  /// After the optimizer's update of the same step, whose result `found` is (train/optimizer.h): state that moves with
  /// the weights, and stays where they do.
  virtual void updated(const at::Tensor& /*found*/) {}
  /// What the last `accumulate` found besides: fp64 numbers on the same device, always as many, or undefined.
  virtual at::Tensor found() const { return {}; }
  /// The same back on the host, step by step in order: values for the step's line.
  virtual EvalMetrics step_metrics(const std::vector<double>& /*found*/) { return {}; }
  /// Of mixtures: what went to whom since the last call.
  virtual ExpertLoad take_load() { return {}; }
  /// Seconds spent waiting for data since `start`.
  virtual double waited() const = 0;
  virtual EvalMetrics evaluate() const = 0;
  /// Pictures of what the model can do by now, into the run folder; by tasks that have some.
  virtual void illustrate(const std::string& /*folder*/, int64_t /*step*/) const {}
  /// A line about the data for the end of a run, or "".
  virtual std::string data_notes() const { return ""; }
  /// Names by label, stored with checkpoints; empty where there are no classes.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// The first intermediate of the forward pass of the last `accumulate` that is not finite, or "".
  virtual std::string first_bad_value() const = 0;
};

}  // namespace siamese
