// Products on the GPU by cuBLASLt. The first time a shape is met its candidates are timed (some 100 ms for a large
// shape, never inside a graph capture), later the winner runs; with deterministic algorithms asked for it is
// always the library's first choice. A run keeps what it took and takes it again when it is resumed. Every GPU has a
// handle and choices of its own. Workspaces belong to a stream: products on two streams may run at the same time.
// With SIAMESE_WOVEN=8 our own product (kernels/cuda/gemm_wide.h) is a candidate too, with 16 it is taken wherever it
// serves.
//
// cuBLASLt counts columns first: a row-major C = op(A)·op(B) is its Cᵀ = op(B)ᵀ·op(A)ᵀ, on the same memory.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/woven.h"
#include "ops/cuda/fastest.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/product_plan.h"
#include "ops/cuda/products.h"
#include "ops/gemm.h"

namespace siamese {
namespace {

using at::Tensor;
using kernels::Woven;
using kernels::woven_wanted;

constexpr int kCandidates = 24;

/// Of the current device, which the handle is for.
class Products {
 public:
  Products(const CublasLt& lt, cublasLtHandle_t handle)
      : lt_(lt), handle_(handle), cache_(device_name(), lt.version()) {}

  Tensor operator()(const Tensor& a, const Tensor& b, bool ta, bool tb, const void* bias) {
    const int64_t m = ta ? a.size(1) : a.size(0), k = ta ? a.size(0) : a.size(1), n = tb ? b.size(0) : b.size(1);
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    Tensor out = at::empty({m, n}, a.options());
    ProductScratch& scratch = scratch_[stream];
    if (!scratch.workspace.defined()) scratch = ProductScratch(a);
    ProductPlan& plan = plan_of(m, n, k, ta, tb, bias);
    const bool deterministic = at::globalContext().deterministicAlgorithms();
    // The library's first matrix is our second.
    const void *first = b.const_data_ptr(), *second = a.const_data_ptr();
    const bool ours = woven_wanted(Woven::always) && plan.ours();
    if (!ours && !plan.tuned && !deterministic &&
        c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None)
      tune(plan, first, second, out.mutable_data_ptr(), scratch, stream);
    const bool best = !ours && plan.tuned && !deterministic;
    plan.used = plan.used || best;
    multiply(plan, first, second, out.mutable_data_ptr(), scratch,
             ours   ? our_own()
             : best ? plan.best
                    : plan.first,
             stream);
    return out;
  }

  void forget_workspaces() { scratch_.clear(); }

  std::string chosen() const {
    ProductList list = cache_.preferred();  // a shape of the run that did not come up again yet is not forgotten
    for (const auto& [key, plan] : plans_)
      if (plan.used) list[key] = bytes_of(plan.best);
    return list.empty() ? "" : to_text(list, cache_.origin());
  }

  void prefer(const std::string& text) {
    cache_.prefer(products_from(text, cache_.origin()));
    for (auto& [key, plan] : plans_) {
      plan.tuned = false;
      recall(plan);
    }
  }

 private:
  static std::string device_name() {
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, c10::cuda::current_device()));
    return properties.name;
  }

  void multiply(const ProductPlan& plan, const void* a, const void* b, void* c, const ProductScratch& scratch,
                const Algorithm& with, cudaStream_t stream) const {
    if (is_our_own(with)) {
      kernels::GemmWide call = plan.shape;
      call.a = b, call.b = a, call.out = c;
      call.partial = static_cast<float*>(scratch.workspace.mutable_data_ptr());
      call.told = scratch.told.mutable_data_ptr<int>();
      C10_CUDA_CHECK(kernels::gemm_wide(call, stream));
      return;
    }
    const float one = 1.f, zero = 0.f;
    check_lt(lt_.matmul(handle_, plan.desc, &one, a, plan.a, b, plan.b, &zero, c, plan.c, c, plan.c, &with,
                        scratch.workspace.mutable_data_ptr(), kWorkspace, stream),
             "the product");
  }

  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const ProductPlan& plan, int most) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check_lt(lt_.preference_create(&preference), "a preference");
    size_t bytes = kWorkspace;
    lt_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    // Where a product is split, its parts are added in fp32, never in bf16.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    lt_.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
    int found = 0;
    const auto status =
        lt_.heuristic(handle_, plan.desc, plan.a, plan.b, plan.c, plan.c, preference, most, results.data(), &found);
    lt_.preference_destroy(preference);
    check_lt(status, "the choice of an algorithm");
    TORCH_CHECK(found > 0, "[gemm] cuBLASLt has no algorithm for this product");
    results.resize(static_cast<size_t>(found));
    return results;
  }

  /// Its description has this bias, whose place may be another one every time.
  ProductPlan& plan_of(int64_t m, int64_t n, int64_t k, bool ta, bool tb, const void* bias) {
    const std::string key = key_of(m, n, k, ta, tb, bias != nullptr);
    auto set_bias = [&](const ProductPlan& plan) {
      if (bias != nullptr)
        check_lt(lt_.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "a description");
    };
    if (const auto known = plans_.find(key); known != plans_.end()) {
      set_bias(known->second);
      return known->second;
    }
    ProductPlan plan;  // kept only once it is whole
    plan.key = key;
    plan.shape.m = m, plan.shape.n = n, plan.shape.k = k, plan.shape.transpose_a = ta, plan.shape.transpose_b = tb;
    plan.biased = bias != nullptr;
    check_lt(lt_.desc_create(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a description");
    const cublasOperation_t first = tb ? CUBLAS_OP_T : CUBLAS_OP_N, second = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_lt(lt_.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "a description");
    check_lt(lt_.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second), "a description");
    if (bias != nullptr) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;  // a number for each of the library's rows
      check_lt(lt_.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "a description");
      set_bias(plan);
    }
    // As stored, columns first: b is [k, n] (or [n, k]), so the library sees n × k (or k × n).
    auto layout = [&](cublasLtMatrixLayout_t* to, int64_t rows, int64_t columns) {
      check_lt(lt_.layout_create(to, CUDA_R_16BF, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
               "a layout");
    };
    tb ? layout(&plan.a, k, n) : layout(&plan.a, n, k);
    ta ? layout(&plan.b, m, k) : layout(&plan.b, k, m);
    layout(&plan.c, n, m);
    plan.first = candidates(plan, 1).front().algo;
    recall(plan);
    return plans_[key] = plan;
  }

  /// Takes the algorithm that the cache has for the shape, if the library accepts it.
  void recall(ProductPlan& plan) const {
    Algorithm known;
    cublasLtMatmulHeuristicResult_t needs;
    if (!cache_.find(plan.key, &known)) return;
    if (is_our_own(known)) {
      plan.tuned = woven_wanted(Woven::fastest) && plan.ours();
      plan.best = known;
    } else if (lt_.check(handle_, plan.desc, plan.a, plan.b, plan.c, plan.c, &known, &needs) == CUBLAS_STATUS_SUCCESS &&
               needs.workspaceSize <= kWorkspace) {
      plan.best = known;
      plan.tuned = true;
    }
  }

  /// (Running the best on until the clock settles under the power cap finds others, but was not faster in a training
  /// step.)
  void tune(ProductPlan& plan, const void* first, const void* second, void* out, const ProductScratch& scratch,
            cudaStream_t stream) {
    plan.best = plan.first;
    plan.tuned = true;
    std::vector<Algorithm> able;
    for (const auto& candidate : candidates(plan, kCandidates))
      if (candidate.state == CUBLAS_STATUS_SUCCESS) able.push_back(candidate.algo);
    if (woven_wanted(Woven::fastest) && plan.ours()) able.push_back(our_own());
    const auto best = fastest_of(
        able, [&](const Algorithm& algo) { multiply(plan, first, second, out, scratch, algo, stream); }, stream);
    if (!best) return;
    plan.best = *best;
    cache_.add(plan.key, plan.best);
  }

  const CublasLt& lt_;
  const cublasLtHandle_t handle_;
  ProductCache cache_;
  std::map<cudaStream_t, ProductScratch> scratch_;
  std::unordered_map<std::string, ProductPlan> plans_;
};

std::mutex mutex;  // autograd's threads

/// Those of the devices met so far.
std::map<int, std::unique_ptr<Products>>& all_products() {
  static std::map<int, std::unique_ptr<Products>> all;
  return all;
}
/// Of the current device; null where there is no cuBLASLt for it.
Products* products() {
  const CublasLt* lt = CublasLt::get();
  if (lt == nullptr) return nullptr;
  const auto [mine, first] = all_products().try_emplace(c10::cuda::current_device());
  cublasLtHandle_t handle = nullptr;
  if (first && lt->create(&handle) == CUBLAS_STATUS_SUCCESS) mine->second = std::make_unique<Products>(*lt, handle);
  return mine->second.get();
}

bool suits(const Tensor& t) {
  return t.scalar_type() == at::kBFloat16 && t.is_contiguous() && t.numel() > 0 && t.size(0) % 8 == 0 &&
         t.size(1) % 8 == 0 &&
         reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 256 == 0;  // what its choice of algorithms counts on
}

Tensor gemm_gpu(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                const std::optional<Tensor>& bias) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, "[gemm] needs two matrices but got ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.size(transpose_a ? 0 : 1) == b.size(transpose_b ? 1 : 0), "[gemm] ", a.sizes(), " and ", b.sizes(),
              " do not fit");
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == b.size(transpose_b ? 0 : 1)), "[gemm] a bias of ",
              bias->sizes(), " does not fit ", b.sizes());
  const bool fits = !bias || (bias->scalar_type() == at::kBFloat16 && bias->is_contiguous() &&
                              reinterpret_cast<uintptr_t>(bias->const_data_ptr()) % 16 == 0);
  if (fits && suits(a) && suits(b)) {
    const c10::cuda::CUDAGuard guard(a.device());
    const std::lock_guard lock(mutex);
    if (Products* mine = products())
      return (*mine)(a, b, transpose_a, transpose_b, bias ? bias->const_data_ptr() : nullptr);
  }
  return gemm_plain(a, b, transpose_a, transpose_b, bias);
}

}  // namespace

std::string chosen_products() {
  const std::lock_guard lock(mutex);
  return products() != nullptr ? products()->chosen() : "";
}

void prefer_products(const std::string& text) {
  const std::lock_guard lock(mutex);
  if (products() != nullptr) products()->prefer(text);
}

void forget_workspaces() {
  const std::lock_guard lock(mutex);
  for (auto& [device, mine] : all_products())
    if (mine != nullptr) mine->forget_workspaces();
}

TORCH_LIBRARY_IMPL(siamese, CUDA, m) { m.impl("gemm", gemm_gpu); }

}  // namespace siamese
