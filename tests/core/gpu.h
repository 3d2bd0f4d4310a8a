// What every GPU test stands on: LibTorch's CUDA part opened in time, a skip where there is no GPU.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/gpu_tools.h"
#include "train/device.h"
#include "util/error.h"

namespace siamese {

/// LibTorch decides at its first use whether there is CUDA: its library must be open before any test runs.
class OpenCudaFirst : public testing::Environment {
 public:
  void SetUp() override { select_device("auto"); }
};
inline const testing::Environment* const open_cuda_first = testing::AddGlobalTestEnvironment(new OpenCudaFirst);

/// Under compute-sanitizer (scripts/test-gpu) everything takes many times as long: tests then leave out large sizes.
inline bool under_sanitizer() { return std::getenv("SIAMESE_UNDER_SANITIZER") != nullptr; }

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      gpu_ = select_device("cuda");
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
    at::globalContext().setAllowTF32CuBLAS(false);
  }
  /// Why the experts' kernels do not serve this GPU; "" where they do.
  std::string without_expert_kernels() const {
    const int capability = gpu_tools()->capability(gpu_.index());
    if (capability == 90 || capability == 100) return "";
    return fmt::format("the experts' kernels need compute capability 9.0 or 10.0, this GPU has {}", capability / 10.0);
  }
  at::Device gpu_ = at::kCPU;
};

}  // namespace siamese
