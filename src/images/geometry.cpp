#include "images/geometry.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "util/error.h"

namespace siamese {
namespace {

uint8_t to_byte(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

/// A pixel to calculate with.
struct Grey {
  using Value = float;
  static constexpr int kChannels = 1;
  static void store(Value value, uint8_t* pixel) { *pixel = to_byte(static_cast<int>(value)); }
};

/// One lane a channel and one empty: a register of every x86-64, in one instruction instead of three or four.
struct Colour {
  using Value = float __attribute__((vector_size(16)));
  using Whole = int32_t __attribute__((vector_size(16)));
  static constexpr int kChannels = 3;
  static void store(Value value, uint8_t* pixel) {
    const Whole whole = __builtin_convertvector(value, Whole);
    for (int c = 0; c < 3; ++c) pixel[c] = to_byte(whole[c]);
  }
};

struct Linear {
  static constexpr int kTaps = 2, kBefore = 0;
  template <class Value>
  static Value between(const Value* v, float t) {
    return v[0] + (v[1] - v[0]) * t;
  }
};

/// Cubic convolution with a = -1. In this form, as in the linear one, equal taps give their value exactly: with weights
/// whose sum is 1 only nearly, cutting off would darken plain areas by one.
struct Cubic {
  static constexpr int kTaps = 4, kBefore = 1;
  template <class Value>
  static Value between(const Value* v, float t) {
    const Value p2 = v[2] - v[0], p3 = 2 * (v[0] - v[1]) + v[2] - v[3], p4 = v[1] - v[0] + v[3] - v[2];
    return v[1] + t * (p2 + t * (p3 + t * p4));
  }
};

/// The picture as numbers: bytes are converted once and not for each of up to 16 taps.
template <class Kind>
struct Source {
  using Value = typename Kind::Value;
  int width, height;
  std::unique_ptr<Value[]> values;

  explicit Source(const Image& image) : width(image.width), height(image.height) {
    const size_t pixels = static_cast<size_t>(width) * height;
    values = std::make_unique_for_overwrite<Value[]>(pixels);
    const uint8_t* p = image.pixels.data();
    for (size_t i = 0; i < pixels; ++i, p += Kind::kChannels) {
      if constexpr (Kind::kChannels == 3)
        values[i] = Value{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]), 0};
      else
        values[i] = *p;
    }
  }
};

/// (u, v) lies in the picture. Along the rows first, then between the rows.
template <class Rule, class Kind>
typename Kind::Value sample(const Source<Kind>& source, double u, double v) {
  using Value = typename Kind::Value;
  constexpr int taps = Rule::kTaps, before = Rule::kBefore;
  // ⌊u - ½⌋ without a call: u - ½ ≥ -½, and a conversion cuts off towards 0.
  const int x = static_cast<int>(u + 0.5) - 1, y = static_cast<int>(v + 0.5) - 1;
  const auto tx = static_cast<float>(u - 0.5 - x), ty = static_cast<float>(v - 0.5 - y);
  const Value* rows[taps];
  int columns[taps];
#pragma GCC unroll 4  // taps live in registers, which -O2 alone does not see
  for (int k = 0; k < taps; ++k) {
    rows[k] = &source.values[static_cast<size_t>(std::clamp(y + k - before, 0, source.height - 1)) * source.width];
    columns[k] = std::clamp(x + k - before, 0, source.width - 1);
  }
  const auto along = [&](const Value* row) {
    Value taken[taps];
#pragma GCC unroll 4
    for (int k = 0; k < taps; ++k) taken[k] = row[columns[k]];
    return Rule::between(taken, tx);
  };
  // Shears and shifts meet the pixels exactly in one direction; one row, or one column, is enough there.
  if (ty == 0) return along(rows[before]);
  Value taken[taps];
#pragma GCC unroll 4
  for (int k = 0; k < taps; ++k) taken[k] = tx == 0 ? rows[k][columns[before]] : along(rows[k]);
  return Rule::between(taken, ty);
}

template <class Rule, class Kind>
Image warp_by(const Image& image, const Affine& m, const Fill& fill) {
  const Source<Kind> source(image);
  Image out(image.width, image.height, Kind::kChannels);
  uint8_t* pixel = out.pixels.data();
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x, pixel += Kind::kChannels) {
      const double u = m.a * (x + 0.5) + m.b * (y + 0.5) + m.c, v = m.d * (x + 0.5) + m.e * (y + 0.5) + m.f;
      if (u >= 0 && u < source.width && v >= 0 && v < source.height)
        Kind::store(sample<Rule, Kind>(source, u, v), pixel);
      else
        std::copy_n(fill.begin(), Kind::kChannels, pixel);
    }
  }
  return out;
}

template <class Rule>
Image warp_by(const Image& image, const Affine& m, const Fill& fill) {
  return image.channels == 3 ? warp_by<Rule, Colour>(image, m, fill) : warp_by<Rule, Grey>(image, m, fill);
}

}  // namespace

Image warp(const Image& image, const Affine& source, Filter filter, const Fill& fill) {
  if (image.channels != 1 && image.channels != 3) fail("warp: image has {} channels, not 1 or 3", image.channels);
  return filter == Filter::bilinear ? warp_by<Linear>(image, source, fill) : warp_by<Cubic>(image, source, fill);
}

//   source = R·(p - centre) + centre,  R = (cos θ, -sin θ; sin θ, cos θ) with y pointing down
Image rotate(const Image& image, double degrees, Filter filter, const Fill& fill) {
  const double angle = degrees * std::numbers::pi / 180, x = image.width / 2.0, y = image.height / 2.0;
  // 15 digits as in Pillow: quarter turns meet the pixels exactly.
  const auto rounded = [](double value) { return std::round(value * 1e15) / 1e15; };
  const double cos = rounded(std::cos(angle)), sin = rounded(std::sin(angle));
  return warp(image, {cos, -sin, -cos * x + sin * y + x, sin, cos, -sin * x - cos * y + y}, filter, fill);
}

Image shear_x(const Image& image, double factor, Filter filter, const Fill& fill) {
  return warp(image, {.b = factor}, filter, fill);
}

Image shear_y(const Image& image, double factor, Filter filter, const Fill& fill) {
  return warp(image, {.d = factor}, filter, fill);
}

Image translate_x(const Image& image, double share, Filter filter, const Fill& fill) {
  return warp(image, {.c = share * image.width}, filter, fill);
}

Image translate_y(const Image& image, double share, Filter filter, const Fill& fill) {
  return warp(image, {.f = share * image.height}, filter, fill);
}

}  // namespace siamese
