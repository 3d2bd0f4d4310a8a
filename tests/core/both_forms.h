// Products with epilogues have two forms (kernels/cuda/gemm_pingpong.cuh and gemm_woven.cuh): tests see both.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace siamese {

/// A setting of the environment for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

/// What `product` returns in both forms; fails where they are not the same bit for bit. The same kernel twice where k
/// is too small for the woven one.
template <class Product>
auto in_both_forms(const Product& product, const std::string& what) {
  const auto plain = product();
  const Environment woven("SIAMESE_WOVEN", "7");
  const auto other = product();
  std::apply(
      [&](const auto&... first) {
        std::apply([&](const auto&... second) { EXPECT_TRUE((at::equal(first, second) && ...)) << what << " woven"; },
                   other);
      },
      plain);
  return other;
}

}  // namespace siamese
