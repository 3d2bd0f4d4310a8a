// Runs of Transform on small pictures, and the pictures read back from what came out.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "images/transform.h"
#include "sample_image.h"

namespace siamese {

inline std::vector<float> train(const AugmentConfig& config, const Image& image, int size, int i = 0,
                                int channels = 3) {
  std::vector<float> out(static_cast<size_t>(channels) * size * size);
  Transform(config, size, channels).train(image, RandomKey(1, static_cast<uint64_t>(i), kTestSite), out);
  return out;
}

inline std::vector<float> evaluate(const AugmentConfig& config, const Image& image, int size, int channels = 3) {
  std::vector<float> out(static_cast<size_t>(channels) * size * size);
  Transform(config, size, channels).evaluate(image, out);
  return out;
}

/// To -1 … 1, so that a value can be read back exactly.
inline AugmentConfig config_of(const std::string& crop) {
  AugmentConfig config;
  config.crop = crop;
  config.normalize = "half";
  return config;
}

inline AugmentConfig deit() {
  AugmentConfig config;
  config.crop = "resized";
  config.flip = 0.5;
  config.rand_augment = 9;
  config.erasing = 0.25;
  config.interpolation = "random";
  return config;
}

/// The picture behind normalised values.
inline Image back(const std::vector<float>& values, int size, int channels = 3) {
  Image image(size, size, channels);
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x)
      for (int c = 0; c < channels; ++c)
        image.at(x, y)[c] = static_cast<uint8_t>(
            std::lround((values[(static_cast<size_t>(c) * size + y) * size + x] * 0.5f + 0.5f) * 255));
  return image;
}

inline Image cropped(const Image& image, int x0, int y0, int size) {
  Image out(size, size, image.channels);
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x)
      if (x + x0 >= 0 && x + x0 < image.width && y + y0 >= 0 && y + y0 < image.height)
        std::copy_n(image.at(x + x0, y + y0), image.channels, out.at(x, y));
  return out;
}

inline Image mirrored(const Image& image) {
  Image out = image;
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) std::copy_n(image.at(image.width - 1 - x, y), image.channels, out.at(x, y));
  return out;
}

}  // namespace siamese
