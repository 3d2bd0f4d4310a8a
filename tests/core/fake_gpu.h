// Stands in for a GPU's tools on the CPU. Its copies run as late as the rules of CopyLane allow: memory that is written
// again too early shows as wrong numbers, as on a GPU that is busy.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ops/gpu_tools.h"

namespace siamese {

class LazyLane final : public CopyLane {
 public:
  explicit LazyLane(size_t bytes) : host_(bytes), device_(bytes) {}
  void* host() override {
    run();
    return host_.data();
  }
  void send() override {
    run();
    sent_ = true;
  }
  void place(void* to) override {
    run();
    std::memcpy(to, device_.data(), device_.size());
  }

 private:
  void run() {
    if (sent_) device_ = host_;
    sent_ = false;
  }
  std::vector<char> host_, device_;
  bool sent_ = false;
};

class FakeTools final : public GpuTools {
 public:
  std::unique_ptr<StepGraph> make_graph() override { return nullptr; }
  std::unique_ptr<CopyLane> make_copy_lane(size_t bytes) override {
    ++lanes;
    return std::make_unique<LazyLane>(bytes);
  }
  std::string products() override { return chosen; }
  void use_products(const std::string& text) override { used = text; }
  std::string device_name() override { return "none"; }
  int capability(int) override { return 0; }
  bool attention_in_one_pass(int64_t, int64_t, int64_t, int64_t) override { return false; }
  bool attention_norms_fit(int64_t, int64_t, int64_t, int64_t, int64_t) override { return false; }
  int64_t total_bytes() override { return total; }
  int64_t peak_bytes() override { return 0; }
  void reset_peak() override {}
  void release() override {}
  void synchronize() override {}

  int lanes = 0;
  int64_t total = 0;
  std::string chosen, used = "not called";
};

}  // namespace siamese
