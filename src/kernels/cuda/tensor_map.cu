#include "kernels/cuda/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

namespace siamese::kernels {
namespace {

PFN_cuTensorMapEncodeTiled_v12000 encode() {
  static const auto function = []() -> PFN_cuTensorMapEncodeTiled_v12000 {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) !=
            cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
      return nullptr;
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  return function;
}

}  // namespace

bool hopper_serves() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == 9 && minor == 0 && encode() != nullptr;
}

bool make_map(CUtensorMap* map, const void* matrix, int64_t rows, int64_t columns, int64_t stride, int box_rows,
              int box_columns, Swizzle swizzle) {
  if (encode() == nullptr) return false;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns), static_cast<cuuint32_t>(box_rows)}, ones[] = {1, 1};
  const auto mixed = swizzle == Swizzle::bytes128  ? CU_TENSOR_MAP_SWIZZLE_128B
                     : swizzle == Swizzle::bytes64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                   : CU_TENSOR_MAP_SWIZZLE_NONE;
  return encode()(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(matrix), sizes, strides, box, ones,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, mixed, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool make_map3(CUtensorMap* map, const void* tensor, int64_t batch, int64_t rows, int64_t columns, int64_t stride,
               int box_rows, int box_columns) {
  if (encode() == nullptr) return false;
  auto size = [](int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[] = {size(columns), size(rows), size(batch)},
                   strides[] = {size(stride * 2), size(rows * stride * 2)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns), static_cast<cuuint32_t>(box_rows), 1},
                   ones[] = {1, 1, 1};
  return encode()(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(tensor), sizes, strides, box, ones,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace siamese::kernels
