// AdamW over named parameters: decay groups, fp32 master weights under bf16, global-norm clip, averaged weights.
#pragma once

#include <vector>

#include "nn/params.h"
#include "nn/tensor_io.h"
#include "recipe/recipe.h"

namespace siamese {

class Optimizer {
 public:
  Optimizer(const Params& params, const TrainConfig& train);

  /// Takes the gradients of one micro-batch: adds them up in fp32 and clears them. Parameters without one keep zero.
  void collect();
  /// Global norm of what was collected; scaled down to `clip` where it is larger. Not finite: nothing is changed.
  double clip();
  /// One AdamW update of step number `step` (1-based), then the averaged weights; forgets the gradients.
  void update(double lr, int64_t step);
  void forget();

  bool decays(const Parameter& p) const;
  /// Name of the first parameter whose collected gradient is not finite, or "".
  std::string first_bad_gradient() const;

  /// State for a checkpoint, by name: `m.*`, `v.*`, and under bf16 `master.*`.
  NamedTensors state() const;
  /// Averaged weights by parameter name; empty without EMA.
  NamedTensors average() const;
  /// After weights were loaded into the parameters: master and averaged weights follow them.
  void adopt_weights();
  int64_t bytes() const;
  int64_t average_bytes() const;

 private:
  struct Slot {
    Parameter parameter;
    at::Tensor master;  // the parameter itself in fp32 training
    at::Tensor gradient, m, v, step, average;
  };
  const TrainConfig train_;
  std::vector<Slot> slots_;
};

}  // namespace siamese
