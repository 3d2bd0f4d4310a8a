// CIFAR-10's binary format: records of a label and 32 x 32 pixels, all red ones first, then green, then blue.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "images/image.h"

namespace siamese {

inline constexpr int kCifarSide = 32, kCifarClasses = 10;
inline constexpr size_t kCifarRecord = 1 + 3 * kCifarSide * kCifarSide;

/// Checked records; looks into the bytes it was made from.
class CifarRecords {
 public:
  /// Throws Error naming `name`, and the record where one is bad.
  CifarRecords(std::span<const uint8_t> bytes, const std::string& name);

  int64_t size() const { return static_cast<int64_t>(bytes_.size() / kCifarRecord); }
  int64_t label(int64_t index) const { return record(index)[0]; }
  Image image(int64_t index) const;

 private:
  std::span<const uint8_t> record(int64_t index) const {
    return bytes_.subspan(static_cast<size_t>(index) * kCifarRecord, kCifarRecord);
  }

  std::span<const uint8_t> bytes_;
};

}  // namespace siamese
