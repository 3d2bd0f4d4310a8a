// What the rest of the program needs of CUDA itself. The executable does not link CUDA: libsiamese_cuda.so fills this
// in when it is opened (train/device.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace siamese {

/// A piece of work that is run a few times, then captured as a CUDA graph and replayed from there on. Everything it
/// touches must keep its address, and it must not wait for the device.
class StepGraph {
 public:
  virtual ~StepGraph() = default;
  /// Runs `work` on the graph's own stream, which then waits for and is waited for by the caller's stream.
  virtual void run(const std::function<void()>& work) = 0;
};

/// As a graph where there is one, operation by operation otherwise.
inline void run_step(StepGraph* graph, const std::function<void()>& work) {
  if (graph != nullptr) {
    graph->run(work);
  } else {
    work();
  }
}

class GpuTools {
 public:
  virtual ~GpuTools() = default;
  virtual std::unique_ptr<StepGraph> make_graph() = 0;
  virtual std::string device_name() = 0;
  /// Bytes in tensors at the most since the last reset.
  virtual int64_t peak_bytes() = 0;
  virtual void reset_peak() = 0;
  /// Gives unused memory back to the device.
  virtual void release() = 0;
  virtual void synchronize() = 0;
};

/// Null where libsiamese_cuda.so is not open.
GpuTools* gpu_tools();
void set_gpu_tools(GpuTools* tools);

}  // namespace siamese
