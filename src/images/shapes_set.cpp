// Drawn shapes: ten classes that need no file, for trying things out. A picture is a pure function of (seed, index).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "images/chances.h"
#include "images/outlines.h"
#include "images/sets.h"
#include "util/error.h"

namespace siamese {
namespace {

// Noise draws from groups of the key that Chances never reaches.
constexpr uint64_t kNoiseGroups = uint64_t{1} << 32;

struct Colour {
  double r, g, b;
};

Colour mix(const Colour& a, const Colour& b, double share) {
  return {a.r + (b.r - a.r) * share, a.g + (b.g - a.g) * share, a.b + (b.b - a.b) * share};
}

/// hue in turns (any number), saturation and value in 0 … 1: f(n) = v - v·s·max(0, min(k, 4 - k, 1)), k = (n + 6h)
/// mod 6.
Colour colour(double hue, double saturation, double value) {
  const auto part = [&](double n) {
    const double k = 6 * (n / 6 + hue - std::floor(n / 6 + hue));
    return value - value * saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0);
  };
  return {part(5), part(3), part(1)};
}

struct Direction {
  double x, y;
};

Direction direction(Chances& chance) {
  const double angle = chance.uniform(0, 2 * std::numbers::pi);
  return {std::cos(angle), std::sin(angle)};
}

/// Everything random about one picture; lengths in widths of the picture.
struct Scene {
  Scene(int label_, const RandomKey& key) : label(label_) {
    Chances chance(key);
    radius = chance.uniform(0.2, 0.4);
    x = chance.uniform(radius, 1 - radius);
    y = chance.uniform(radius, 1 - radius);
    turn = direction(chance);
    slope = direction(chance);
    noise = chance.uniform(0, 5);
    // Bright on dark or strong on pale, and hues at least a quarter of the circle apart: always to be told from
    // another.
    const bool dark = chance.coin(0.5);
    const double hue = chance.uniform(), change = chance.uniform(-0.12, 0.12);
    const double saturation = dark ? chance.uniform(0.3, 0.7) : chance.uniform(0.08, 0.3);
    const double value = dark ? chance.uniform(0.12, 0.3) : chance.uniform(0.82, 0.98);
    near = colour(hue, saturation, value);
    far =
        colour(hue + change, saturation, dark ? value + chance.uniform(0.05, 0.22) : value - chance.uniform(0.05, 0.2));
    const double other = hue + chance.uniform(0.25, 0.75);
    fill = dark ? colour(other, chance.uniform(0.3, 0.85), chance.uniform(0.8, 1))
                : colour(other, chance.uniform(0.65, 0.95), chance.uniform(0.4, 0.75));
  }

  /// In widths of the picture.
  double distance(double px, double py) const {
    const double dx = (px - x) / radius, dy = (py - y) / radius;
    return radius * outline_distance(label, turn.x * dx + turn.y * dy, turn.x * dy - turn.y * dx);
  }

  Colour at(double px, double py, double pixel) const {
    const double across = (px - 0.5) * slope.x + (py - 0.5) * slope.y;
    const Colour ground = mix(near, far, std::clamp(0.5 + across, 0.0, 1.0));
    constexpr double kShadow = 0.03, kSoft = 0.05;  // how far it falls, how blurred it is
    if (std::hypot(px - x, py - y) > radius + kShadow * 1.5 + kSoft) return ground;
    const double dark = std::clamp(0.5 - distance(px - kShadow, py - kShadow) / kSoft, 0.0, 1.0);
    const Colour shaded = mix(ground, {0, 0, 0}, 0.35 * dark);
    // Half a pixel on each side of the outline: the share of the pixel that it covers, nearly.
    const double cover = std::clamp(0.5 - distance(px, py) / pixel, 0.0, 1.0);
    const double light = (px - x + py - y) / radius;  // from the upper left
    return mix(shaded, mix(fill, light < 0 ? Colour{1, 1, 1} : Colour{0, 0, 0}, 0.15 * std::abs(light)), cover);
  }

  int label;
  double radius, x, y, noise;
  Direction turn, slope;
  Colour near, far, fill;
};

Image draw(int label, int size, const RandomKey& key) {
  const Scene scene(label, key);
  Image image(size, size);
  Philox4 words{};
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const uint64_t at = static_cast<uint64_t>(y) * static_cast<uint64_t>(size) + static_cast<uint64_t>(x);
      if (at % 4 == 0) words = key.words(kNoiseGroups + at / 4);
      const uint32_t word = words.v[at % 4];
      const double noise = scene.noise * (static_cast<double>(word & 0xFFFF) - static_cast<double>(word >> 16)) / 65536;
      const Colour c = scene.at((x + 0.5) / size, (y + 0.5) / size, 1.0 / size);
      uint8_t* out = image.at(x, y);
      for (const double part : {c.r, c.g, c.b}) {
        *out++ = static_cast<uint8_t>(std::clamp(255 * part + noise + 0.5, 0.0, 255.0));
      }
    }
  }
  return image;
}

class ShapesSet final : public ImageSet {
 public:
  /// `site`: kDataText draws for training, kDataValidation other pictures for validation.
  ShapesSet(int64_t count, int64_t size, uint64_t seed, RandomSite site)
      : count_(count), size_(static_cast<int>(size)), seed_(seed), site_(site) {}

  int64_t size() const override { return count_; }
  int64_t label(int64_t index) const override { return index % kOutlines; }
  Image load(int64_t index, int) const override {
    if (index < 0 || index >= count_) fail("shapes: image {} of {}", index, count_);
    return draw(static_cast<int>(label(index)), size_, RandomKey(seed_, static_cast<uint64_t>(index), site_));
  }
  std::string name(int64_t index) const override {
    return fmt::format("{} shape {}", site_ == kDataValidation ? "validation" : "training", index);
  }
  const std::vector<std::string>& class_names() const override { return outline_names(); }
  std::string describe() const override {
    return fmt::format("shapes: {} drawn images of {} classes, {} pixels a side", count_, kOutlines, size_);
  }
  int64_t decoded_bytes(int) const override { return count_ * 3 * size_ * size_; }

 private:
  int64_t count_;
  int size_;
  uint64_t seed_;
  RandomSite site_;
};

}  // namespace

ImageSets make_shapes_sets(int64_t count, int64_t image_size, uint64_t seed) {
  if (count < 1) fail("data.shapes: {}, expected at least 1", count);
  if (image_size < 1 || image_size > 1 << 14) fail("model.image_size: {} pixels cannot be drawn", image_size);
  const int64_t validation = std::max<int64_t>(kOutlines, count / 10);
  return {std::make_shared<ShapesSet>(count, image_size, seed, kDataText),
          std::make_shared<ShapesSet>(validation, image_size, seed, kDataValidation)};
}

}  // namespace siamese
