// AdamW over named parameters: decay groups, fp32 master weights under bf16, global-norm clip, averaged weights.
#pragma once

#include <memory>
#include <vector>

#include "nn/params.h"
#include "nn/tensor_io.h"
#include "recipe/recipe.h"

namespace siamese {

class GpuAdamW;

/// A parameter and what belongs to it.
struct OptimizerSlot {
  Parameter parameter;
  bool decays = false;
  double rate = 1;    // factor on the learning rate
  at::Tensor master;  // the parameter itself in fp32 training
  at::Tensor gradient, m, v, average;
};

/// What a step found: places in the tensor that `step` returns. `bad`: the first step whose loss or norm was not
/// finite, or 0.
enum StepValue { kStepLoss, kStepNorm, kStepBad, kStepValues };

/// A step is `collect` after each micro-batch, then `step`. On a GPU neither waits for the device, and once a value was
/// not finite no later step changes anything either.
class Optimizer {
 public:
  Optimizer(const Params& params, const TrainConfig& train);
  ~Optimizer();

  /// Takes the gradients of one micro-batch: adds them up in fp32 and clears them. Parameters without one keep zero.
  void collect();
  /// Clips, updates and forgets the gradients, unless the loss (a scalar, may be undefined) or the norm is not finite;
  /// then nothing is changed. `number` counts from 1. Returns kStepValues fp64 numbers on the parameters' device; the
  /// next step overwrites them there.
  at::Tensor step(const at::Tensor& loss, double lr, int64_t number);
  /// The two halves of `step`: a captured CUDA graph holds `apply`, and `plan` goes before each replay.
  void plan(double lr, int64_t number);
  at::Tensor apply(const at::Tensor& loss);

  /// The CPU's `step` in parts. Global norm of what was collected; scaled down to `clip` where it is larger. Not
  /// finite: nothing is changed.
  double clip();
  /// One AdamW update of step number `number`, then the averaged weights; forgets the gradients.
  void update(double lr, int64_t number);
  void forget();

  bool decays(const Parameter& p) const;
  /// train.layer_decay to the power of the blocks between a parameter and the end.
  static double layer_rate(const std::string& name, int64_t blocks, double decay);
  /// Name of the first parameter whose collected gradient is not finite, or "".
  std::string first_bad_gradient() const;

  /// State for a checkpoint, by name: `m.*`, `v.*`, and under bf16 `master.*`.
  NamedTensors state() const;
  /// Averaged weights by parameter name, and the model's states as they are; empty without EMA.
  NamedTensors average() const;
  /// After weights were loaded into the parameters: master and averaged weights follow them.
  void adopt_weights();
  int64_t bytes() const;
  int64_t average_bytes() const;

 private:
  const TrainConfig train_;
  std::vector<OptimizerSlot> slots_;
  std::vector<Parameter> states_;  // of the model: not trained, but part of an average's checkpoint
  std::unique_ptr<GpuAdamW> gpu_;  // where the parameters are on a GPU
  double planned_lr_ = 0;
  int64_t planned_number_ = 0;
};

}  // namespace siamese
