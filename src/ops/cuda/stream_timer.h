#pragma once

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

namespace siamese {

/// Milliseconds between two places of a stream.
class StreamTimer {
 public:
  explicit StreamTimer(cudaStream_t stream) : stream_(stream) {
    C10_CUDA_CHECK(cudaEventCreate(&begin_));
    C10_CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~StreamTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  void begin() const { C10_CUDA_CHECK(cudaEventRecord(begin_, stream_)); }
  float end() const {
    C10_CUDA_CHECK(cudaEventRecord(end_, stream_));
    C10_CUDA_CHECK(cudaEventSynchronize(end_));
    float ms = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return ms;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace siamese
