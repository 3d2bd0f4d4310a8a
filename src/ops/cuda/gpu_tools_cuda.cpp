#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/attention_hopper.h"
#include "ops/attention_norms.h"
#include "ops/cuda/copy_lane.h"
#include "ops/cuda/products.h"
#include "ops/cuda/projection.h"
#include "ops/gpu_tools.h"

namespace at::cuda {
void clearCublasWorkspaces();  // of ATen/cuda/CUDAContextLight.h, which wants the headers of all of CUDA's libraries
}

namespace siamese {
namespace {

class CudaStepGraph final : public StepGraph {
 public:
  CudaStepGraph() : stream_(c10::cuda::getStreamFromPool()) {
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  CudaStepGraph(const CudaStepGraph&) = delete;
  CudaStepGraph& operator=(const CudaStepGraph&) = delete;
  ~CudaStepGraph() override { cudaEventDestroy(event_); }

  void run(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream caller = c10::cuda::getCurrentCUDAStream();
    order(caller, stream_);
    {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      if (runs_++ < kWarmUps) {
        work();
      } else {
        if (!captured_) capture(work);
        graph_.replay();
      }
    }
    order(stream_, caller);
  }

 private:
  void capture(const std::function<void()>& work) {
    // The graph takes its memory from a pool of its own, and no cached block can be freed while it is captured.
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_.capture_begin();
    try {
      work();
      graph_.capture_end();
    } catch (const c10::OutOfMemoryError&) {
      abandon_capture();
      throw;
    } catch (const std::exception& e) {
      abandon_capture();
      TORCH_CHECK(false, "capturing the step as a CUDA graph failed (train.graph: off goes without): ", e.what());
    }
    captured_ = true;
  }
  /// So that the stream and the allocator can be used again; what went wrong is known already.
  void abandon_capture() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
    }
  }
  /// The second waits for all that the first was given so far.
  void order(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& second) const {
    C10_CUDA_CHECK(cudaEventRecord(event_, first));
    C10_CUDA_CHECK(cudaStreamWaitEvent(second, event_, 0));
  }

  static constexpr int kWarmUps = 2;  // libraries choose their algorithms and workspaces in the first runs
  c10::cuda::CUDAStream stream_;
  cudaEvent_t event_ = nullptr;
  at::cuda::CUDAGraph graph_;
  int runs_ = 0;
  bool captured_ = false;
};

class CudaTools final : public GpuTools {
 public:
  std::unique_ptr<StepGraph> make_graph() override { return std::make_unique<CudaStepGraph>(); }
  std::unique_ptr<CopyLane> make_copy_lane(size_t bytes) override { return make_cuda_copy_lane(bytes); }
  std::string products() override { return chosen_products(); }
  void use_products(const std::string& text) override { prefer_products(text); }
  int capability(int device) override {
    if (device < 0) {
      if (c10::cuda::device_count() == 0) return 0;  // a driver, but no GPU that it may use
      device = c10::cuda::current_device();
    }
    int major = 0, minor = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    return 10 * major + minor;
  }
  static kernels::AttentionCuda attention(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads) {
    kernels::AttentionCuda call;
    call.batch = static_cast<int>(batch), call.length = static_cast<int>(length);
    call.heads = static_cast<int>(heads), call.kv_heads = static_cast<int>(kv_heads);
    return call;
  }
  bool attention_in_one_pass(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads) override {
    return kernels::attention_scratch(attention(batch, length, heads, kv_heads)) > 0;
  }
  bool attention_norms_fit(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads, int64_t k) override {
    kernels::AttentionCuda call = attention(batch, length, heads, kv_heads);
    call.lean = lean_norms();
    return kernels::attention_gain_parts(call) > 0 && projection_pays(batch * length, heads, kv_heads, k);
  }
  static cudaDeviceProp properties() {
    cudaDeviceProp p{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&p, c10::cuda::current_device()));
    return p;
  }
  std::string device_name() override { return properties().name; }
  int64_t total_bytes() override {
    return c10::cuda::device_count() == 0 ? 0 : static_cast<int64_t>(properties().totalGlobalMem);
  }
  int64_t peak_bytes() override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
    return stats.allocated_bytes[0].peak;  // 0: all pools together
  }
  void reset_peak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device()); }
  void release() override {
    synchronize();
    forget_workspaces();
    at::cuda::clearCublasWorkspaces();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
  void synchronize() override { c10::cuda::device_synchronize(); }
};

CudaTools tools;
[[maybe_unused]] const bool registered = [] {
  set_gpu_tools(&tools);
  return true;
}();

}  // namespace
}  // namespace siamese
