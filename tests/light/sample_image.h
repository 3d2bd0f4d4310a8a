// A small picture without symmetry, and what tests of image operations compare with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "images/image.h"

namespace siamese {

/// value(x, y, c) = (37x + 59y + 83c + 11xy) mod 256
inline Image sample_image(int width = 5, int height = 4, int channels = 3) {
  Image image(width, height, channels);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.at(x, y)[c] = static_cast<uint8_t>((37 * x + 59 * y + 83 * c + 11 * x * y) % 256);
  return image;
}

/// Every value is at most `slack` off.
inline void expect_pixels(const Image& image, const std::vector<int>& values, int slack = 0) {
  ASSERT_EQ(image.pixels.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LE(std::abs(image.pixels[i] - values[i]), slack)
        << "value " << i << " is " << int{image.pixels[i]} << ", not " << values[i];
}

}  // namespace siamese
