#include "images/pixel_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace siamese {
namespace {

using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

uint8_t clip(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

template <class F>
Table table_of(F value) {
  Table table;
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = clip(value(i));
  return table;
}

void look_up(Image& image, const Table& table) {
  for (uint8_t& v : image.pixels) v = table[v];
}

/// Each channel through a table made from its histogram.
template <class F>
void look_up_by_histogram(Image& image, F table_from) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t c = 0; c < channels; ++c) {
    Histogram counts{};
    for (size_t i = c; i < image.pixels.size(); i += channels) ++counts[image.pixels[i]];
    const Table table = table_from(counts);
    for (size_t i = c; i < image.pixels.size(); i += channels) image.pixels[i] = table[image.pixels[i]];
  }
}

int identity(int i) { return i; }

// value ↦ ⌊(value - low)·255/(high - low)⌋
Table stretch_table(const Histogram& counts) {
  const auto used = [](int64_t count) { return count > 0; };
  const auto low = std::find_if(counts.begin(), counts.end(), used) - counts.begin();
  const auto high = 255 - (std::find_if(counts.rbegin(), counts.rend(), used) - counts.rbegin());
  if (high <= low) return table_of(identity);
  const double scale = 255.0 / static_cast<double>(high - low), offset = -static_cast<double>(low) * scale;
  return table_of([&](int i) { return static_cast<int>(i * scale + offset); });
}

// value ↦ ⌊(step/2 + number of lesser values)/step⌋,  step = ⌊(all - those of the greatest value)/255⌋
Table equalize_table(const Histogram& counts) {
  int64_t all = 0, last = 0;
  for (const int64_t count : counts) {
    all += count;
    if (count > 0) last = count;
  }
  const int64_t step = (all - last) / 255;
  if (step == 0) return table_of(identity);
  int64_t lesser = step / 2;
  return table_of([&](int i) {
    const int64_t value = std::min<int64_t>(lesser / step, 255);
    lesser += counts[static_cast<size_t>(i)];
    return static_cast<int>(value);
  });
}

/// g + factor·(v - g) in single precision, cut off to a whole number.
uint8_t blend(int g, int v, float factor) {
  const float mixed = static_cast<float>(g) + factor * static_cast<float>(v - g);
  return static_cast<uint8_t>(std::clamp(mixed, 0.0f, 255.0f));
}

Table blend_table(int g, double factor) {
  return table_of([&](int v) { return static_cast<int>(blend(g, v, static_cast<float>(factor))); });
}

int mean_luma(const Image& image) {
  int64_t sum = 0;
  const size_t pixels = image.pixels.size() / static_cast<size_t>(image.channels);
  for (size_t i = 0; i < pixels; ++i)
    sum += image.channels == 3 ? luma(&image.pixels[3 * i]) : static_cast<int>(image.pixels[i]);
  return static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
}

}  // namespace

void auto_contrast(Image& image) { look_up_by_histogram(image, stretch_table); }

void equalize(Image& image) { look_up_by_histogram(image, equalize_table); }

void invert(Image& image) {
  for (uint8_t& v : image.pixels) v = static_cast<uint8_t>(255 - v);
}

void posterize(Image& image, int bits) {
  const auto mask = static_cast<uint8_t>(0xff << (8 - std::clamp(bits, 0, 8)));
  for (uint8_t& v : image.pixels) v &= mask;
}

void solarize(Image& image, int threshold) {
  look_up(image, table_of([&](int i) { return i < threshold ? i : 255 - i; }));
}

void solarize_add(Image& image, int amount, int threshold) {
  look_up(image, table_of([&](int i) { return i < threshold ? i + amount : i; }));
}

void color(Image& image, double factor) {
  if (image.channels != 3 || factor == 1) return;
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    uint8_t* rgb = &image.pixels[i];
    const int grey = luma(rgb);
    for (int c = 0; c < 3; ++c) rgb[c] = blend(grey, rgb[c], static_cast<float>(factor));
  }
}

void contrast(Image& image, double factor) {
  if (!image.pixels.empty()) look_up(image, blend_table(mean_luma(image), factor));
}

void brightness(Image& image, double factor) { look_up(image, blend_table(0, factor)); }

// smooth = (sum of the 3×3 + 4·centre)/13, rounded. The sum is separable: `column` holds sums of three rows.
void sharpness(Image& image, double factor) {
  const int c = image.channels, width = image.width * c;
  if (image.width < 3 || image.height < 3 || factor == 1) return;
  const Image before = image;
  std::vector<int> column(static_cast<size_t>(width));
  for (int y = 1; y + 1 < image.height; ++y) {
    const uint8_t *above = before.at(0, y - 1), *here = before.at(0, y), *below = before.at(0, y + 1);
    for (int i = 0; i < width; ++i) column[static_cast<size_t>(i)] = above[i] + here[i] + below[i];
    uint8_t* out = image.at(0, y);
    const int* sum = column.data();
    for (int i = c; i < width - c; ++i) {
      const int weighted = sum[i - c] + sum[i] + sum[i + c] + 4 * here[i];
      const int smooth = static_cast<int>(static_cast<unsigned>(2 * weighted + 13) / 26);
      out[i] = blend(smooth, here[i], static_cast<float>(factor));
    }
  }
}

}  // namespace siamese
