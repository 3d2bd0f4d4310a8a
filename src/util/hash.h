// XXH64: a fast hash that tells whether a file is the one that was written. Not for security.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace siamese {

/// Fed in pieces of any size; the result depends only on the bytes. `digest` may be asked at any time.
class Xxh64 {
 public:
  explicit Xxh64(uint64_t seed = 0);
  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;
  std::string hex() const;  // 16 digits

 private:
  void stripe(const std::byte* bytes);

  uint64_t seed_;
  std::array<uint64_t, 4> lanes_;
  std::array<std::byte, 32> pending_{};  // the first total_ % 32 bytes wait for the rest of their stripe
  uint64_t total_ = 0;
};

}  // namespace siamese
