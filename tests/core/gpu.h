// What every GPU test stands on: LibTorch's CUDA part opened in time, a skip where there is no GPU.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

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
  at::Device gpu_ = at::kCPU;
};

}  // namespace siamese
