#include "ops/cuda/copy_lane.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace siamese {
namespace {

class CudaCopyLane final : public CopyLane {
 public:
  explicit CudaCopyLane(size_t bytes) : bytes_(bytes), stream_(c10::cuda::getStreamFromPool()) {
    const auto options = at::TensorOptions().dtype(at::kByte);
    const int64_t count = static_cast<int64_t>(bytes);
    host_ = at::empty({count}, options.pinned_memory(true));
    device_ = at::empty({count}, options.device(at::kCUDA, c10::cuda::current_device()));
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&sent_, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&placed_, cudaEventDisableTiming));
    // LibTorch's allocator hands out memory in the order of the current stream: work given to it before may still use
    // what is ours now, so the first copy waits for that work as later ones wait for `place`.
    C10_CUDA_CHECK(cudaEventRecord(placed_, c10::cuda::getCurrentCUDAStream()));
  }
  CudaCopyLane(const CudaCopyLane&) = delete;
  CudaCopyLane& operator=(const CudaCopyLane&) = delete;
  ~CudaCopyLane() override {
    // Both buffers go back to allocators that know nothing of our stream, nor of the one that `place` ran on.
    cudaStreamSynchronize(stream_);
    cudaEventSynchronize(placed_);
    cudaEventDestroy(sent_);
    cudaEventDestroy(placed_);
  }

  void* host() override {
    C10_CUDA_CHECK(cudaEventSynchronize(sent_));  // returns at once where nothing was sent yet
    return host_.mutable_data_ptr();
  }

  void send() override {
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream_, placed_, 0));
    C10_CUDA_CHECK(
        cudaMemcpyAsync(device_.mutable_data_ptr(), host_.const_data_ptr(), bytes_, cudaMemcpyHostToDevice, stream_));
    C10_CUDA_CHECK(cudaEventRecord(sent_, stream_));
  }

  void place(void* to) override {
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
    C10_CUDA_CHECK(cudaStreamWaitEvent(current, sent_, 0));
    C10_CUDA_CHECK(cudaMemcpyAsync(to, device_.const_data_ptr(), bytes_, cudaMemcpyDeviceToDevice, current));
    C10_CUDA_CHECK(cudaEventRecord(placed_, current));
  }

 private:
  const size_t bytes_;
  c10::cuda::CUDAStream stream_;
  at::Tensor host_, device_;
  cudaEvent_t sent_ = nullptr, placed_ = nullptr;
};

}  // namespace

std::unique_ptr<CopyLane> make_cuda_copy_lane(size_t bytes) { return std::make_unique<CudaCopyLane>(bytes); }

}  // namespace siamese
