// RandAugment (Cubuk et al., 2020) with the set of operations DeiT trains with: timm's "rand-m9-mstd0.5-inc1". In the
// increasing set a higher level means a stronger change for every operation.
#pragma once

#include <string_view>

#include "images/chances.h"
#include "images/geometry.h"

namespace siamese {

enum class Operation {
  auto_contrast,
  equalize,
  invert,
  rotate,
  posterize,
  solarize,
  solarize_add,
  color,
  contrast,
  brightness,
  sharpness,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
};
inline constexpr int kOperations = 15;
std::string_view name_of(Operation operation);

enum class Interpolation { bilinear, bicubic, random };
Interpolation interpolation_of(std::string_view name);
inline Filter draw_filter(Interpolation interpolation, Chances& chances) {
  if (interpolation == Interpolation::random) return chances.coin(0.5) ? Filter::bilinear : Filter::bicubic;
  return interpolation == Interpolation::bilinear ? Filter::bilinear : Filter::bicubic;
}

/// What an operation of level 0 … 10 is called with; 0 where it takes nothing. Draws the sign where both directions
/// exist.
double argument_of(Operation operation, double level, Chances& chances);

void apply(Operation operation, double argument, Filter filter, const Fill& fill, Image& image);

struct RandAugmentOptions {
  double magnitude = 9, deviation = 0.5;
  int operations = 2;        // an image, drawn with replacement
  double probability = 0.5;  // of each of them
  Interpolation interpolation = Interpolation::bicubic;
  Fill fill{};
};
void rand_augment(Image& image, const RandAugmentOptions& options, Chances& chances);

}  // namespace siamese
