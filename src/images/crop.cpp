#include "images/crop.h"

#include <algorithm>
#include <cmath>

namespace siamese {
namespace {

constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;
constexpr int kTries = 10;

Box centred(int width, int height, int part_width, int part_height) {
  return {static_cast<double>((width - part_width) / 2), static_cast<double>((height - part_height) / 2),
          static_cast<double>(part_width), static_cast<double>(part_height)};
}

/// A whole number in 0 … high.
double up_to(int high, Chances& chances) { return chances.below(static_cast<uint32_t>(high) + 1); }

}  // namespace

// share·W·H = w·h and ratio = w/h give w = √(share·W·H·ratio), h = √(share·W·H/ratio).
Box draw_part(int width, int height, double least_share, Chances& chances) {
  const double all = static_cast<double>(width) * height;
  for (int i = 0; i < kTries; ++i) {
    const double area = all * chances.uniform(least_share, 1), ratio = chances.log_uniform(kNarrowest, kWidest);
    const int w = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const double y = up_to(height - h, chances), x = up_to(width - w, chances);
    return {x, y, static_cast<double>(w), static_cast<double>(h)};
  }
  const double ratio = static_cast<double>(width) / height;
  const auto whole = [](double side) { return std::max(1, static_cast<int>(std::lround(side))); };
  if (ratio < kNarrowest) return centred(width, height, width, std::min(height, whole(width / kNarrowest)));
  if (ratio > kWidest) return centred(width, height, std::min(width, whole(height * kWidest)), height);
  return centred(width, height, width, height);
}

// The resized picture has whole sides, so that the factors of the two directions may differ slightly.
Box centre_part(int width, int height, int shorter, int size) {
  const auto longer = [&](int a, int b) { return std::floor(static_cast<double>(shorter) * a / b); };
  const double w = width <= height ? shorter : longer(width, height);
  const double h = width <= height ? longer(height, width) : shorter;
  const double left = std::nearbyint((w - size) / 2), top = std::nearbyint((h - size) / 2);
  const double x = width / w, y = height / h;
  return {left * x, top * y, size * x, size * y};
}

}  // namespace siamese
