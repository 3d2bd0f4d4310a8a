// Random tensors for tests and benchmarks, the same on every run.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/random.h"
#include "util/philox.h"

namespace siamese {

/// Tiny tensors gain nothing from a second thread, and waiting for it is slow where the machine is busy.
struct OneThread {
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  const int before = at::get_num_threads();
};

using NamedLeaves = std::vector<std::pair<std::string, at::Tensor>>;

/// Elements of a normal distribution, the same on every run; `number` tells draws apart.
inline at::Tensor random_normal(at::IntArrayRef shape, int64_t number, at::ScalarType dtype = at::kDouble) {
  at::Tensor t = at::empty(shape, at::kDouble);
  truncated_normal_(t, 1.0, 0.0, {20260101, number, kTestSite, 0});
  return t.to(dtype);
}

}  // namespace siamese
