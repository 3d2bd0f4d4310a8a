// libFuzzer target: whatever the bytes, the decoder either throws Error or hands out a whole picture of an accepted
// size, which can be resized.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "images/codec.h"
#include "images/resize.h"
#include "require.h"
#include "util/error.h"

namespace {

constexpr int64_t kMostPixels = 1 << 16;

void decode(std::span<const uint8_t> bytes, int least_side, const siamese::Needed& needed = nullptr) {
  try {
    siamese::DecodeOptions options;
    options.least_side = least_side;
    options.needed = needed;
    options.most_pixels = kMostPixels;
    const siamese::Image image = siamese::decode_image(bytes, "fuzz", options);
    require(image.width > 0 && image.height > 0 && image.channels == 3);
    require(int64_t{image.width} * image.height <= kMostPixels);
    require(image.pixels.size() == size_t{3} * image.width * image.height);
    const siamese::Image small = siamese::resize(image, 5, 3, siamese::Filter::bicubic);
    require(small.pixels.size() == 45);
  } catch (const siamese::Error& error) {
    check_message(error.what());
  }
}

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// A PNG whose chunks have the right checksums.
std::vector<uint8_t> with_checksums(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> repaired(bytes.begin(), bytes.end());
  size_t at = 8;  // behind the signature; a chunk is length, type, data, checksum
  while (repaired.size() >= 12 && at <= repaired.size() - 12) {
    const size_t length = big_endian(&repaired[at]);
    if (length > repaired.size() - 12 - at) break;
    const auto sum = crc32(0, &repaired[at + 4], static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i) repaired[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  return repaired;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(data, size);
  decode(bytes, 0);
  if (size == 0) return 0;
  // JPEG at a smaller size, and parts of it; PNG, where a mutation seldom passes the checksums, with the right ones.
  if (data[0] == 0xFF) {
    const auto middle = [](int width, int height) {
      return siamese::Part{width / 3, height / 3, 1 + width / 4, 1 + height / 4};
    };
    decode(bytes, 4);
    decode(bytes, 0, middle);
    decode(bytes, 4, middle);
  } else {
    decode(with_checksums(bytes), 0);
  }
  return 0;
}
