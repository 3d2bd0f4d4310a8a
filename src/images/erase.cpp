#include "images/erase.h"

#include <cmath>

namespace siamese {
namespace {

constexpr double kLeastShare = 0.02, kGreatestShare = 1.0 / 3, kFlattest = 0.3;
constexpr int kTries = 10;

}  // namespace

void erase_part(std::span<float> pixels, int channels, int size, Chances& chances) {
  const double all = static_cast<double>(size) * size;
  for (int i = 0; i < kTries; ++i) {
    const double area = all * chances.uniform(kLeastShare, kGreatestShare);
    const double ratio = chances.log_uniform(kFlattest, 1 / kFlattest);
    const int h = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const int w = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (h < 1 || w < 1 || h >= size || w >= size) continue;
    const auto top = chances.below(static_cast<uint32_t>(size - h) + 1);
    const auto left = chances.below(static_cast<uint32_t>(size - w) + 1);
    for (int c = 0; c < channels; ++c)
      for (int y = 0; y < h; ++y) {
        const size_t row = (static_cast<size_t>(c) * size + top + static_cast<size_t>(y)) * size;
        chances.normals(pixels.subspan(row + left, static_cast<size_t>(w)));
      }
    return;
  }
}

}  // namespace siamese
