#include "ops/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

namespace siamese {
namespace {

std::unique_ptr<CublasLt> open() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW);
  if (library == nullptr) return nullptr;
  auto lt = std::make_unique<CublasLt>();
  bool whole = true;
  auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    whole = whole && function != nullptr;
  };
  find(lt->create, "cublasLtCreate");
  find(lt->version, "cublasLtGetVersion");
  find(lt->matmul, "cublasLtMatmul");
  find(lt->heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(lt->check, "cublasLtMatmulAlgoCheck");
  find(lt->desc_create, "cublasLtMatmulDescCreate");
  find(lt->desc_set, "cublasLtMatmulDescSetAttribute");
  find(lt->layout_create, "cublasLtMatrixLayoutCreate");
  find(lt->preference_create, "cublasLtMatmulPreferenceCreate");
  find(lt->preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(lt->preference_set, "cublasLtMatmulPreferenceSetAttribute");
  return whole ? std::move(lt) : nullptr;
}

}  // namespace

const CublasLt* CublasLt::get() {
  static const std::unique_ptr<CublasLt> lt = open();
  return lt.get();
}

}  // namespace siamese
