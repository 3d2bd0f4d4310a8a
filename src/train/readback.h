// What training steps found, on its way back from the device. The host issues steps ahead of a GPU and reads their
// results a few steps late, in order; on the CPU they are there at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace siamese {

struct StepResult {
  int64_t step = 0;  // 0-based
  double lr = 0, loss = 0, grad_norm = 0;
  bool bad = false;               // the loss or the norm is not finite, nothing was updated
  double seconds = 0;             // from its first to its last operation, on the device's clock
  std::vector<double> more = {};  // what the task found besides
};

class Readback {
 public:
  explicit Readback(at::Device device) : device_(device) {}

  /// Before the first and after the last operation of a step; `found` is what Optimizer::step returned, then what
  /// Task::found did.
  void begin();
  void end(int64_t step, double lr, const at::Tensor& found);

  bool empty() const { return flying_.empty(); }
  /// Whether to take the oldest now: it has arrived, or the host is far enough ahead.
  bool due() const;
  /// The oldest; waits for it.
  StepResult take();

 private:
  /// A moment of the step: on a GPU an event in the stream, and its time is the device's.
  struct Mark {
    double host = 0;
    std::optional<c10::Event> event;
  };
  struct Flight {
    int64_t step;
    double lr;
    at::Tensor values;  // in pinned memory where they come from a GPU
    Mark begin, end;
  };
  Mark mark() const;

  at::Device device_;
  Mark begin_;
  std::deque<Flight> flying_;
};

}  // namespace siamese
