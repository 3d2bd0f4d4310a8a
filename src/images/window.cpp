#include "images/window.h"

#include <algorithm>

#include "images/pixel_ops.h"

namespace siamese {
namespace {

/// Columns [first, end) of a window's row lie in the picture; `step` values of the picture further is the next of them.
struct Row {
  int first = 0, end = 0;
  const uint8_t* pixel = nullptr;  // of column `first`
  ptrdiff_t step = 0;
};

Row row_of(const Window& window, int y) {
  const Image& image = *window.image;
  const int source_y = window.y + y;
  if (source_y < 0 || source_y >= image.height) return {};
  // Unmirrored columns first; reversing them swaps the two ends.
  const int first = std::clamp(-window.x, 0, window.size), end = std::clamp(image.width - window.x, first, window.size);
  if (first == end) return {};
  if (!window.mirrored) return {first, end, image.at(window.x + first, source_y), image.channels};
  return {window.size - end, window.size - first, image.at(window.x + end - 1, source_y), -image.channels};
}

/// (value/255 - mean)/deviation = scale·value + black
struct Levels {
  float scale, black;
};

/// One channel of a row; `value` reads it from a pixel.
template <class F>
void write_row(const Row& row, int size, const Levels& levels, float* out, F value) {
  std::fill(out, out + row.first, levels.black);
  const uint8_t* pixel = row.pixel;
  for (int x = row.first; x < row.end; ++x, pixel += row.step)
    out[x] = levels.scale * static_cast<float>(value(pixel)) + levels.black;
  std::fill(out + row.end, out + size, levels.black);
}

}  // namespace

Image cut_out(const Window& window) {
  const int channels = window.image->channels;
  Image out(window.size, window.size, channels);
  for (int y = 0; y < window.size; ++y) {
    const Row row = row_of(window, y);
    if (row.first == row.end) continue;
    uint8_t* to = out.at(row.first, y);
    if (!window.mirrored) {
      std::copy_n(row.pixel, static_cast<ptrdiff_t>(row.end - row.first) * channels, to);
      continue;
    }
    const uint8_t* pixel = row.pixel;
    for (int x = row.first; x < row.end; ++x, pixel += row.step)
      for (int c = 0; c < channels; ++c) *to++ = pixel[c];
  }
  return out;
}

void to_floats(const Window& window, const Normalize& normalize, int channels, std::span<float> out) {
  const bool colour = window.image->channels == 3;
  const size_t plane = static_cast<size_t>(window.size) * window.size;
  for (int c = 0; c < channels; ++c) {
    const float deviation = normalize.deviation[c];
    const Levels levels{1 / (255 * deviation), -normalize.mean[c] / deviation};
    float* to = out.data() + static_cast<size_t>(c) * plane;
    for (int y = 0; y < window.size; ++y, to += window.size) {
      const Row row = row_of(window, y);
      if (colour && channels == 1)
        write_row(row, window.size, levels, to, luma);
      else
        write_row(row, window.size, levels, to, [at = colour ? c : 0](const uint8_t* p) { return int{p[at]}; });
    }
  }
}

}  // namespace siamese
