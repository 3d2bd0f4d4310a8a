// IDX, the format of MNIST: two zero bytes, the type of the values, the number of dimensions, their sizes (big-endian),
// then the values. Plain or packed by gzip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace siamese {

struct IdxArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> values;
};

/// Reads an array of bytes with `dimensions` dimensions, none of them 0. Takes no more memory than the file really
/// holds, whatever its header says. Throws Error naming `name`.
IdxArray parse_idx(std::span<const uint8_t> bytes, int dimensions, const std::string& name);

}  // namespace siamese
