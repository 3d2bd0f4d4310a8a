// A picture in memory: 8 bits a value, rows from top to bottom, channels interleaved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace siamese {

struct Image {
  int width = 0, height = 0, channels = 3;  // 1 grey, 3 red, green, blue
  std::vector<uint8_t> pixels;

  Image() = default;
  Image(int w, int h, int c = 3, uint8_t value = 0)
      : width(w), height(h), channels(c), pixels(static_cast<size_t>(w) * h * c, value) {}

  uint8_t* at(int x, int y) { return &pixels[(static_cast<size_t>(y) * width + x) * channels]; }
  const uint8_t* at(int x, int y) const { return &pixels[(static_cast<size_t>(y) * width + x) * channels]; }
  bool operator==(const Image&) const = default;
};

/// A rectangle of whole pixels.
struct Part {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Part&) const = default;
};

/// Which pixels of a picture of this width and height are going to be looked at.
using Needed = std::function<Part(int width, int height)>;

}  // namespace siamese
