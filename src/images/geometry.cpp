#include "images/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numbers>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "util/error.h"

namespace siamese {
namespace {

uint8_t to_byte(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

/// What `load` and `store` of a pixel may read and write.
constexpr int kPixelRoom = 4;

/// A pixel to calculate with.
struct Grey {
  using Value = float;
  static constexpr int kChannels = 1;
  static Value load(const uint8_t* pixel) { return *pixel; }
  static void store(Value value, uint8_t* pixel) { *pixel = to_byte(static_cast<int>(value)); }
};

/// One lane a channel and one that nobody looks at: a register of every x86-64, in one instruction instead of three or
/// four.
struct Colour {
  using Value = float __attribute__((vector_size(16)));
  static constexpr int kChannels = 3;
#if defined(__SSE2__)
  /// Reads four bytes.
  static Value load(const uint8_t* pixel) {
    int32_t word;
    std::memcpy(&word, pixel, sizeof word);
    const __m128i zero = _mm_setzero_si128(), bytes = _mm_cvtsi32_si128(word);
    return _mm_cvtepi32_ps(_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero));
  }
  /// Writes four bytes.
  static void store(Value value, uint8_t* pixel) {
    const __m128i whole = _mm_cvttps_epi32(value), words = _mm_packs_epi32(whole, whole);
    const int32_t word = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(pixel, &word, sizeof word);
  }
#else
  using Whole = int32_t __attribute__((vector_size(16)));
  static Value load(const uint8_t* p) {
    return Value{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]), 0};
  }
  static void store(Value value, uint8_t* pixel) {
    const Whole whole = __builtin_convertvector(value, Whole);
    for (int c = 0; c < 3; ++c) pixel[c] = to_byte(whole[c]);
  }
#endif
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

/// The picture as numbers: bytes are converted once and not for each of up to 16 taps. Around it its outermost pixels
/// are repeated as far as taps reach, so that none has to be held inside.
template <class Kind>
struct Source {
  using Value = typename Kind::Value;
  static constexpr int kBorder = 2;
  int width, height;
  ptrdiff_t stride;
  std::unique_ptr<Value[]> values;

  explicit Source(const Image& image) : width(image.width), height(image.height), stride(width + 2 * kBorder) {
    values = std::make_unique_for_overwrite<Value[]>(static_cast<size_t>(stride) * (height + 2 * kBorder));
    for (int y = 0; y < height; ++y) {
      const uint8_t* p = image.at(0, y);
      Value* const row = at(0, y);
      for (int x = 0; x + 1 < width; ++x, p += Kind::kChannels) row[x] = Kind::load(p);
      uint8_t last[kPixelRoom] = {};  // nothing may be read behind the picture
      std::copy_n(p, Kind::kChannels, last);
      row[width - 1] = Kind::load(last);
      std::fill_n(row - kBorder, kBorder, row[0]);
      std::fill_n(row + width, kBorder, row[width - 1]);
    }
    for (int k = 1; k <= kBorder; ++k) {
      std::copy_n(at(-kBorder, 0), stride, at(-kBorder, -k));
      std::copy_n(at(-kBorder, height - 1), stride, at(-kBorder, height - 1 + k));
    }
  }

  Value* at(int x, int y) { return &values[(y + kBorder) * stride + x + kBorder]; }
  const Value* at(int x, int y) const { return &values[(y + kBorder) * stride + x + kBorder]; }
};

/// (u, v) lies in the picture. Along the rows first, then between the rows.
template <class Rule, class Kind>
typename Kind::Value sample(const Source<Kind>& source, double u, double v) {
  using Value = typename Kind::Value;
  constexpr int taps = Rule::kTaps, before = Rule::kBefore;
  // ⌊u - ½⌋ without a call: u - ½ ≥ -½, and a conversion cuts off towards 0.
  const int x = static_cast<int>(u + 0.5) - 1, y = static_cast<int>(v + 0.5) - 1;
  const auto tx = static_cast<float>(u - 0.5 - x), ty = static_cast<float>(v - 0.5 - y);
  const Value* const first = source.at(x - before, y - before);
  // Shears and shifts meet the pixels exactly in one direction; one row, or one column, is enough there.
  if (ty == 0) return Rule::between(first + before * source.stride, tx);
  Value taken[taps];
#pragma GCC unroll 4  // taps live in registers, which -O2 alone does not see
  for (int k = 0; k < taps; ++k) {
    const Value* const row = first + k * source.stride;
    taken[k] = tx == 0 ? row[before] : Rule::between(row, tx);
  }
  return Rule::between(taken, ty);
}

template <class Rule, class Kind>
Image warp_by(const Image& image, const Affine& m, const Fill& fill) {
  const Source<Kind> source(image);
  Image out(image.width, image.height, Kind::kChannels);
  // The last row has room behind it for the last pixel's fourth byte.
  std::vector<uint8_t> last_row(static_cast<size_t>(out.width) * Kind::kChannels + kPixelRoom);
  for (int y = 0; y < out.height; ++y) {
    uint8_t* pixel = y + 1 < out.height ? out.at(0, y) : last_row.data();
    for (int x = 0; x < out.width; ++x, pixel += Kind::kChannels) {
      const double u = m.a * (x + 0.5) + m.b * (y + 0.5) + m.c, v = m.d * (x + 0.5) + m.e * (y + 0.5) + m.f;
      if (u >= 0 && u < source.width && v >= 0 && v < source.height)
        Kind::store(sample<Rule, Kind>(source, u, v), pixel);
      else
        std::copy_n(fill.begin(), Kind::kChannels, pixel);
    }
  }
  std::copy_n(last_row.begin(), static_cast<size_t>(out.width) * Kind::kChannels, out.at(0, out.height - 1));
  return out;
}

template <class Rule>
Image warp_by(const Image& image, const Affine& m, const Fill& fill) {
  return image.channels == 3 ? warp_by<Rule, Colour>(image, m, fill) : warp_by<Rule, Grey>(image, m, fill);
}

}  // namespace

Image warp(const Image& image, const Affine& source, Filter filter, const Fill& fill) {
  if (image.channels != 1 && image.channels != 3) fail("warp: image has {} channels, not 1 or 3", image.channels);
  if (image.pixels.empty()) return image;
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
