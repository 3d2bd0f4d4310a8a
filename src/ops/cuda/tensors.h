// Tensors as the CUDA kernels take them.
#pragma once

#include <ATen/ATen.h>

namespace siamese {

/// Contiguous and 16-byte aligned; undefined stays so. The kernels read 16 bytes at a time, and a view into a larger
/// tensor may begin anywhere.
inline at::Tensor aligned(const at::Tensor& t) {
  if (!t.defined()) return t;
  const at::Tensor dense = t.contiguous();
  return reinterpret_cast<uintptr_t>(dense.const_data_ptr()) % 16 == 0 ? dense : dense.clone();
}

/// Null for an undefined tensor.
inline const void* pointer(const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }
inline void* writable(const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr() : nullptr; }

}  // namespace siamese
