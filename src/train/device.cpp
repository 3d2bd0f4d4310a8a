#include "train/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include "revision.h"
#include "util/error.h"

namespace siamese {
namespace {

/// Opens LibTorch's CUDA part and our kernels; returns what went wrong, or "".
std::string open_cuda() {
  static const std::string result = []() -> std::string {
    if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) return "no NVIDIA driver (libcuda.so.1) is installed";
    // cuBLAS promises the same bits only with a workspace of fixed size, and LibTorch looks for this once, at the first
    // product of the process, deterministic or not. The size is LibTorch's own on Hopper.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    for (const char* library : {"libtorch_cuda.so", "libsiamese_cuda.so"})
      if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
    if (!at::globalContext().hasCUDA()) return "the NVIDIA driver reports no GPU";
    at::globalContext().lazyInitDevice(c10::kCUDA);  // the allocator answers questions only from then on
    return "";
  }();
  return result;
}

}  // namespace

at::Device select_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name != "auto" && name != "cuda") fail("--device {}: must be auto, cpu or cuda", name);
  const std::string problem = open_cuda();
  if (problem.empty()) return at::Device(at::kCUDA, 0);
  if (name == "cuda") fail("--device cuda: {}", problem);
  if (problem.find("libcuda.so.1") == std::string::npos) fmt::print(stderr, "the GPU is not used: {}\n", problem);
  return at::kCPU;
}

void set_deterministic(bool on) {
  // Not warn_only: flash attention would then warn and take its other backward pass all the same.
  at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
  // We read no memory we did not write: filling every new tensor with NaN would only cost time.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

Versions versions() {
  Versions v{SIAMESE_REVISION, TORCH_VERSION, "none", "none"};
  if (open_cuda().empty()) {
    const auto& hooks = at::detail::getCUDAHooks();
    const long cuda = hooks.versionCUDART(), cudnn = hooks.versionRuntimeCuDNN();
    v.cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
    v.cudnn = fmt::format("{}.{}.{}", cudnn / 10000, cudnn % 10000 / 100, cudnn % 100);
  }
  return v;
}

std::string version_text() {
  const Versions v = versions();
  const std::string why = open_cuda();
  return fmt::format("siamese {}\nLibTorch {}\nCUDA {}{}\ncuDNN {}\n", v.revision, v.libtorch, v.cuda,
                     why.empty() ? "" : " (" + why + ")", v.cudnn);
}

}  // namespace siamese
