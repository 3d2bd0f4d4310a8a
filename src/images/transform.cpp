#include "images/transform.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "images/crop.h"
#include "images/erase.h"
#include "images/pixel_ops.h"
#include "images/rand_augment.h"
#include "images/window.h"
#include "util/error.h"

namespace siamese {
namespace {

/// Width/height of the narrowest part that `draw_part` takes.
constexpr double kNarrowestPart = 0.75;

void check(const Image& image, std::span<float> out, int size, int channels) {
  if (image.width < 1 || image.height < 1 || (image.channels != 1 && image.channels != 3))
    fail("transform: a picture of {}×{} pixels and {} channels", image.width, image.height, image.channels);
  const size_t values = static_cast<size_t>(size) * size * channels;
  if (out.size() != values) fail("transform: room for {} values, not {}", out.size(), values);
}

/// The shorter side an evaluated picture is resized to. Any ratio above 0 is allowed; below 1/16 the centre of a narrow
/// picture would be too small for the floats of resize's boxes.
int evaluated_side(const AugmentConfig& config, int size) {
  return static_cast<int>(std::lround(size / std::max(config.crop_ratio, 1.0 / 16)));
}

/// The pixels themselves, or resized ones that `resized` keeps.
const Image& whole_at(const Image& image, int size, Filter filter, Image& resized) {
  if (image.width == size && image.height == size) return image;
  resized = resize(image, size, size, filter);
  return resized;
}

/// Brightness, contrast and saturation by factors uniform in max(0, 1 - j) … 1 + j, in random order.
void jitter(Image& image, double j, Chances& chances) {
  std::array<void (*)(Image&, double), 3> enhancers = {brightness, contrast, color};
  for (size_t left = enhancers.size(); left > 0; --left) {
    std::swap(enhancers[left - 1], enhancers[chances.below(static_cast<uint32_t>(left))]);
    enhancers[left - 1](image, chances.uniform(std::max(0.0, 1 - j), 1 + j));
  }
}

Fill fill_of(const Normalize& normalize) {
  Fill fill;
  for (size_t c = 0; c < 3; ++c) fill[c] = static_cast<uint8_t>(std::lround(255 * normalize.mean[c]));
  return fill;
}

}  // namespace

Normalize normalize_of(const AugmentConfig& config, int channels) {
  if (config.normalize == "half") return {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
  if (config.normalize != "imagenet") fail("augment.normalize is {}, not imagenet or half", config.normalize);
  if (channels == 1) return {{0.449f, 0.449f, 0.449f}, {0.226f, 0.226f, 0.226f}};  // the means of the three
  return {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
}

Transform::Transform(const AugmentConfig& config, int size, int channels)
    : config_(config), size_(size), channels_(channels) {
  if (size < 1) fail("model.image_size is {}, not 1 or more", size);
  if (channels != 1 && channels != 3) fail("model.channels is {}; pictures have 1 or 3", channels);
  constexpr std::array<std::string_view, 4> kCrops = {"none", "resized", "padded", "center"};
  if (std::find(kCrops.begin(), kCrops.end(), config.crop) == kCrops.end())
    fail("augment.crop is {}, not none, resized, padded or center", config.crop);
  if (!(config.crop_ratio > 0 && config.crop_ratio <= 1))
    fail("augment.crop_ratio is {}, not in (0, 1]", config.crop_ratio);
  normalize_of(config, channels);
  interpolation_of(config.interpolation);
}

void Transform::train(const Image& image, const RandomKey& key, std::span<float> out) const {
  check(image, out, size_, channels_);
  Chances chances(key);
  const Interpolation interpolation = interpolation_of(config_.interpolation);
  const Filter filter = draw_filter(interpolation, chances);
  Image part;
  Window window{&part, 0, 0, size_};
  if (config_.crop == "resized") {
    part = resize(image, draw_part(image.width, image.height, config_.crop_scale, chances), size_, size_, filter);
  } else if (config_.crop == "center") {
    part = resize(image, centre_part(image.width, image.height, size_, size_), size_, size_, filter);
  } else {
    window.image = &whole_at(image, size_, filter, part);
    if (config_.crop == "padded") {
      const auto pad = static_cast<int>(config_.padding);
      window.x = static_cast<int>(chances.below(static_cast<uint32_t>(2 * pad) + 1)) - pad;
      window.y = static_cast<int>(chances.below(static_cast<uint32_t>(2 * pad) + 1)) - pad;
    }
  }
  window.mirrored = chances.coin(config_.flip);

  const Normalize normalize = normalize_of(config_, channels_);
  if (config_.rand_augment > 0 || config_.color_jitter > 0) {
    if (window.image != &part || window.x != 0 || window.y != 0 || window.mirrored) part = cut_out(window);
    window = {&part, 0, 0, size_};
    if (config_.rand_augment > 0) {
      const RandAugmentOptions options{.magnitude = config_.rand_augment,
                                       .deviation = config_.rand_augment_std,
                                       .operations = static_cast<int>(config_.rand_augment_ops),
                                       .interpolation = interpolation,
                                       .fill = fill_of(normalize_of(config_, part.channels))};
      rand_augment(part, options, chances);
    } else {
      jitter(part, config_.color_jitter, chances);
    }
  }
  to_floats(window, normalize, channels_, out);
  if (chances.coin(config_.erasing)) erase_part(out, channels_, size_, chances);
}

// Draws what `train` draws first.
Part Transform::needed(int width, int height, const RandomKey& key) const {
  if (config_.crop != "resized") return {0, 0, width, height};
  Chances chances(key);
  const Filter filter = draw_filter(interpolation_of(config_.interpolation), chances);
  return reach_of(draw_part(width, height, config_.crop_scale, chances), width, height, size_, size_, filter);
}

void Transform::evaluate(const Image& image, std::span<float> out) const {
  check(image, out, size_, channels_);
  Image part;
  Window window{&part, 0, 0, size_};
  if (config_.crop == "none" || config_.crop == "padded") {
    window.image = &whole_at(image, size_, Filter::bicubic, part);
  } else {
    const Box centre = centre_part(image.width, image.height, evaluated_side(config_, size_), size_);
    part = resize(image, centre, size_, size_, Filter::bicubic);
  }
  to_floats(window, normalize_of(config_, channels_), channels_, out);
}

// The smallest part that training takes has sides of √(scale·3/4) of the shorter side; it should not have to be
// enlarged because of the decoder.
int Transform::least_side() const {
  if (config_.crop == "none" || config_.crop == "padded") return size_;
  const int evaluated = evaluated_side(config_, size_);
  if (config_.crop == "center") return evaluated;
  const double trained = std::ceil(size_ / std::sqrt(config_.crop_scale * kNarrowestPart));
  return std::max(evaluated, static_cast<int>(std::min(trained, 1e6)));
}

}  // namespace siamese
