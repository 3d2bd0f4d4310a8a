// Tensors of a batch on their way to where a step reads them, always at the same address: on a GPU batch k+1 travels on
// a stream of its own while step k computes (as train/batch_copier.h does with token ids), on a CPU they are copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "ops/gpu_tools.h"

namespace siamese {

class TensorCopier {
 public:
  struct Part {
    std::vector<int64_t> shape;
    at::ScalarType type;
  };
  /// Everything is allocated here, before any capture.
  TensorCopier(at::Device device, const std::vector<Part>& parts);

  /// Begins to copy the parts' values, given in order; they may be forgotten at once.
  void send(const std::vector<std::span<const std::byte>>& values);
  /// Makes what was sent last current, in order with what the current stream computes.
  void place();
  /// Part i of the current batch.
  const at::Tensor& part(size_t i) const { return views_[i]; }

 private:
  std::vector<size_t> offsets_, sizes_;
  at::Tensor target_;  // bytes on the device
  std::vector<at::Tensor> views_;
  std::vector<std::byte> waiting_;                       // on a CPU
  std::array<std::unique_ptr<CopyLane>, 2> lanes_ = {};  // two: see train/batch_copier.h
  size_t last_ = 0;
};

}  // namespace siamese
