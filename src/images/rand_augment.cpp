#include "images/rand_augment.h"

#include <algorithm>
#include <array>

#include "images/pixel_ops.h"
#include "util/error.h"

namespace siamese {
namespace {

constexpr double kHighestLevel = 10;

constexpr std::array<std::string_view, kOperations> kNames = {
    "auto_contrast", "equalize",   "invert",    "rotate",  "posterize", "solarize",    "solarize_add", "color",
    "contrast",      "brightness", "sharpness", "shear_x", "shear_y",   "translate_x", "translate_y",
};

}  // namespace

std::string_view name_of(Operation operation) { return kNames[static_cast<size_t>(operation)]; }

Interpolation interpolation_of(std::string_view name) {
  if (name == "bilinear") return Interpolation::bilinear;
  if (name == "bicubic") return Interpolation::bicubic;
  if (name == "random") return Interpolation::random;
  fail("augment.interpolation is {}, not bicubic, bilinear or random", name);
}

// With s = level/10 and a random sign ±:
//
//   rotate ±30·s degrees   shear ±0.3·s   translate ±0.45·s   posterize 4 - ⌊4·s⌋ bits   solarize from 256 - ⌊256·s⌋
//   solarize_add ⌊110·s⌋   color, contrast, brightness, sharpness: factor 1 ± 0.9·s, 0.1 at least
double argument_of(Operation operation, double level, Chances& chances) {
  const double s = level / kHighestLevel;
  const auto either = [&](double value) { return chances.coin(0.5) ? value : -value; };
  switch (operation) {
    case Operation::auto_contrast:
    case Operation::equalize:
    case Operation::invert:
      return 0;
    case Operation::rotate:
      return either(30 * s);
    case Operation::posterize:
      return 4 - static_cast<int>(4 * s);
    case Operation::solarize:
      return 256 - std::min(256, static_cast<int>(256 * s));
    case Operation::solarize_add:
      return std::min(128, static_cast<int>(110 * s));
    case Operation::color:
    case Operation::contrast:
    case Operation::brightness:
    case Operation::sharpness:
      return std::max(0.1, 1 + either(0.9 * s));
    case Operation::shear_x:
    case Operation::shear_y:
      return either(0.3 * s);
    case Operation::translate_x:
    case Operation::translate_y:
      return either(0.45 * s);
  }
  fail("argument_of: no operation {}", static_cast<int>(operation));
}

void apply(Operation operation, double argument, Filter filter, const Fill& fill, Image& image) {
  switch (operation) {
    case Operation::auto_contrast:
      return auto_contrast(image);
    case Operation::equalize:
      return equalize(image);
    case Operation::invert:
      return invert(image);
    case Operation::posterize:
      return posterize(image, static_cast<int>(argument));
    case Operation::solarize:
      return solarize(image, static_cast<int>(argument));
    case Operation::solarize_add:
      return solarize_add(image, static_cast<int>(argument));
    case Operation::color:
      return color(image, argument);
    case Operation::contrast:
      return contrast(image, argument);
    case Operation::brightness:
      return brightness(image, argument);
    case Operation::sharpness:
      return sharpness(image, argument);
    case Operation::rotate:
      image = rotate(image, argument, filter, fill);
      return;
    case Operation::shear_x:
      image = shear_x(image, argument, filter, fill);
      return;
    case Operation::shear_y:
      image = shear_y(image, argument, filter, fill);
      return;
    case Operation::translate_x:
      image = translate_x(image, argument, filter, fill);
      return;
    case Operation::translate_y:
      image = translate_y(image, argument, filter, fill);
      return;
  }
  fail("apply: no operation {}", static_cast<int>(operation));
}

void rand_augment(Image& image, const RandAugmentOptions& options, Chances& chances) {
  for (int i = 0; i < options.operations; ++i) {
    const auto operation = static_cast<Operation>(chances.below(kOperations));
    if (!chances.coin(options.probability)) continue;
    const double level = std::clamp(options.magnitude + options.deviation * chances.normal(), 0.0, kHighestLevel);
    const double argument = argument_of(operation, level, chances);
    apply(operation, argument, draw_filter(options.interpolation, chances), options.fill, image);
  }
}

}  // namespace siamese
