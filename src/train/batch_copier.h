// Batches copied to a GPU ahead of their steps: batch k+1 travels on a stream of its own while step k computes. Before
// its step it is put in the one place that the step, perhaps a CUDA graph, reads. The host waits for no step.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "nn/forward.h"
#include "ops/gpu_tools.h"

namespace siamese {

struct BatchShape {
  int64_t rows = 0, width = 0;  // ids of a batch: [rows, width], a sequence and one more
  int64_t part_rows = 0;        // rows of a micro-batch; divides rows
  bool masked = false;          // the ends of documents (train/documents.h) travel along
  int64_t eos = -1;             // ends one
};

class BatchCopier {
 public:
  /// Everything is allocated here, before any capture.
  BatchCopier(GpuTools& tools, at::Device device, const BatchShape& shape);

  /// Begins to copy the ids of a batch; they may be forgotten at once.
  void send(std::span<const int64_t> ids);
  /// Makes the batch sent last the current one, in order with what the current stream computes.
  void place();

  /// Ids of micro-batch `part` of the current batch on the device: [part_rows, width], always at the same address.
  at::Tensor ids(int64_t part) const;
  /// Fills in what masks documents in that micro-batch.
  void mask(Forward& forward, int64_t part) const;

 private:
  // With one, `send` would wait for the batch of the step just issued, which leaves only when the step before has
  // begun. With two it waits for the batch before, and Readback lets the host run no further ahead: that one has left.
  static constexpr size_t kLanes = 2;
  /// The ends of a micro-batch's documents.
  struct Ends {
    std::shared_ptr<const std::vector<int32_t>> all;
    int64_t longest = 0;
  };
  int64_t ids_bytes() const;
  int64_t ends_bytes() const;  // of one micro-batch, at the most

  BatchShape shape_;
  at::Tensor target_;  // bytes on the device: ids, then room for the ends of each micro-batch
  std::array<std::unique_ptr<CopyLane>, kLanes> lanes_;
  size_t last_ = 0;                // the lane of the batch that was sent last
  std::vector<Ends> sent_, ends_;  // of the batch sent last and of the current one
};

}  // namespace siamese
