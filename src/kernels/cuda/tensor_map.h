// Descriptions of matrices for Hopper's copy engine. The driver makes them; it is asked through the runtime, so that
// nothing links against it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace siamese::kernels {

/// Whether the current device is of compute capability 9.0, for which the kernels with Hopper's own instructions are
/// built, and its driver can make descriptions.
bool hopper_serves();

/// How a box's rows, which are then as long, are mixed in shared memory so that neighbouring rows lie in different
/// banks.
enum class Swizzle { none, bytes64, bytes128 };

/// A bf16 matrix [rows, columns] with a row every `stride` values, all 16-byte aligned, in boxes.
bool make_map(CUtensorMap* map, const void* matrix, int64_t rows, int64_t columns, int64_t stride, int box_rows,
              int box_columns, Swizzle swizzle);

/// A bf16 tensor [batch, rows, columns], rows every `stride` values, in boxes swizzled over 128 bytes.
bool make_map3(CUtensorMap* map, const void* tensor, int64_t batch, int64_t rows, int64_t columns, int64_t stride,
               int box_rows, int box_columns);

}  // namespace siamese::kernels
