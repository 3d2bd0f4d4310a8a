// What the rest of the program needs of CUDA itself. The executable does not link CUDA: libsiamese_cuda.so fills this
// in when it is opened (train/device.h).
#pragma once

#include <cstddef>
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

/// Bytes on their way to the device: pinned memory on the host, a place on the device, and a stream of its own between
/// them, which copies beside what is being computed. "The current stream" is the caller's, on which it computes.
class CopyLane {
 public:
  virtual ~CopyLane() = default;
  /// The pinned memory. The host waits here until what was sent from it before has left it.
  virtual void* host() = 0;
  /// Begins to copy it to the device, as soon as the last `place` has taken from there what lies there.
  virtual void send() = 0;
  /// Puts what was sent last into `to`, also on the device, in order with what the current stream computes: the stream
  /// waits for it where it must, the host does not.
  virtual void place(void* to) = 0;
};

class GpuTools {
 public:
  virtual ~GpuTools() = default;
  virtual std::unique_ptr<StepGraph> make_graph() = 0;
  /// For `bytes` at a time.
  virtual std::unique_ptr<CopyLane> make_copy_lane(size_t bytes) = 0;
  /// The algorithms of the products (ops/product_list.h) that this process has chosen so far, as text.
  virtual std::string products() = 0;
  /// From here on products take the algorithms of such a text ("" for none) before all others; those of another device
  /// or version of the library are left out.
  virtual void use_products(const std::string& text) = 0;
  virtual std::string device_name() = 0;
  virtual int64_t total_bytes() = 0;       // of the current device
  virtual int capability(int device) = 0;  // 90 for compute capability 9.0; of the current device if negative
  /// Whether our own causal attention goes back in one pass on the current device (kernels/cuda/attention_hopper.h).
  virtual bool attention_in_one_pass(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads) = 0;
  /// Whether in addition norms of q, k and v fit into that pass and into the projection from k values (in bf16).
  virtual bool attention_norms_fit(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads, int64_t k) = 0;
  /// Bytes in tensors at the most since the last reset.
  virtual int64_t peak_bytes() = 0;
  virtual void reset_peak() = 0;
  /// Gives unused memory back to the device, the libraries' workspaces too: no StepGraph may be alive.
  virtual void release() = 0;
  virtual void synchronize() = 0;
};

/// Null where libsiamese_cuda.so is not open.
GpuTools* gpu_tools();
void set_gpu_tools(GpuTools* tools);

}  // namespace siamese
