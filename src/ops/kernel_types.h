// From LibTorch's scalar types and tensors to the kernels' types and pointers.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "kernels/bf16.h"

namespace siamese {

/// Calls f(T{}) with the kernels' type for fp32, fp64 or bf16.
template <class F>
void with_kernel_type(at::ScalarType type, const char* op, const F& f) {
  switch (type) {
    case at::kFloat:
      return f(float{});
    case at::kDouble:
      return f(double{});
    case at::kBFloat16:
      return f(kernels::bf16{});
    default:
      TORCH_CHECK(false, "[", op, "] needs fp32, fp64 or bf16 but got ", type);
  }
}

/// Whether libsiamese_cuda.so has brought a kernel for the operator ("siamese::rope"). Ask once and keep the answer.
inline bool has_cuda_kernel(const char* op) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(op, "").hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

/// Null for an undefined tensor.
template <class T>
const T* in_ptr(const at::Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.const_data_ptr()) : nullptr;
}
template <class T>
T* out_ptr(const at::Tensor& t) {
  return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) : nullptr;
}

}  // namespace siamese
