// A shape of products as cuBLASLt knows it, with the algorithm that was chosen for it, and what products use beside
// their matrices.
#pragma once

#include <ATen/ATen.h>

#include <cstring>
#include <string>

#include "kernels/cuda/gemm_wide.h"
#include "ops/cuda/cublas_lt.h"

namespace siamese {

constexpr size_t kWorkspace = size_t{64} << 20;

inline void check_lt(cublasStatus_t status, const char* what) {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "[gemm] cuBLASLt: ", what, " failed with status ", status);
}

using Algorithm = cublasLtMatmulAlgo_t;
/// What stands for our own product among the library's algorithms.
inline Algorithm our_own() {
  Algorithm algo;
  std::memset(&algo, 0xff, sizeof algo);
  return algo;
}
inline bool is_our_own(const Algorithm& algo) {
  const Algorithm own = our_own();
  return std::memcmp(&algo, &own, sizeof algo) == 0;
}

/// One shape: descriptors and the chosen algorithm.
struct ProductPlan {
  std::string key;
  kernels::GemmWide shape{};  // without its pointers
  bool biased = false;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  Algorithm first{}, best{};         // the library's choice, and the fastest once tuned
  bool tuned = false, used = false;  // best is known; it has run

  /// Whether our own product serves.
  bool ours() const {
    return !biased && kernels::gemm_wide_serves(shape) &&
           kernels::gemm_wide_scratch() <= static_cast<int64_t>(kWorkspace);
  }
};

/// What products on a stream use beside their matrices.
struct ProductScratch {
  at::Tensor workspace, told;

  ProductScratch() = default;
  explicit ProductScratch(const at::Tensor& like)
      : workspace(at::empty({static_cast<int64_t>(kWorkspace)}, like.options().dtype(at::kByte))),
        told(at::zeros({1024}, like.options().dtype(at::kInt))) {}  // two a multiprocessor, and more
};

inline std::string key_of(int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool bias) {
  return c10::str("bf16 added in fp32 ", m, "x", n, "x", k, ta ? " T" : " N", tb ? "T" : "N", bias ? " bias" : "");
}

}  // namespace siamese
