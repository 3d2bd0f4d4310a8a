// The optimizer's arithmetic on a GPU: all parameters in a few launches, nothing waits for the device.
#pragma once

#include <vector>

#include "ops/adamw.h"
#include "train/optimizer.h"

namespace siamese {

class GpuAdamW {
 public:
  /// The slots' parameters and state must keep their addresses.
  GpuAdamW(const std::vector<OptimizerSlot>& slots, const TrainConfig& train);

  /// Moves the parameters' gradients into the slots. The first micro-batch's are kept as they are; with the second
  /// begin fp32 sums, which the slots then hold.
  void collect(std::vector<OptimizerSlot>& slots);
  void plan(double lr, int64_t number);
  /// Norm, clip and update with the slots' gradients. Returns the step's values (train/optimizer.h).
  at::Tensor apply(const std::vector<OptimizerSlot>& slots, const at::Tensor& loss);
  /// After the slots' gradients were dropped.
  void forget() { collected_ = 0; }

 private:
  void point_to(const std::vector<at::Tensor>& gradients);

  AdamwBuffers buffers_;
  std::vector<int64_t> offsets_;  // of each slot in sums_
  int64_t sums_size_ = 0;
  at::Tensor sums_;  // fp32, from the first step with more than one micro-batch on
  int collected_ = 0;
};

}  // namespace siamese
