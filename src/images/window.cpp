#include "images/window.h"

#include <algorithm>

#include "images/float_rows.h"
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
  Levels levels[3];
  for (int c = 0; c < channels; ++c) {
    levels[c] = {1 / (255 * normalize.deviation[c]), -normalize.mean[c] / normalize.deviation[c]};
  }
  for (int y = 0; y < window.size; ++y) {
    const Row row = row_of(window, y);
    float* to[3];
    for (int c = 0; c < channels; ++c) to[c] = out.data() + c * plane + static_cast<size_t>(y) * window.size;
    if (colour && channels == 3) {
      for (int c = 0; c < 3; ++c) {
        std::fill(to[c], to[c] + row.first, levels[c].black);
        std::fill(to[c] + row.end, to[c] + window.size, levels[c].black);
        to[c] += row.first;
      }
      float_row(row.pixel, row.step, row.end - row.first, levels, to);
    } else if (colour) {
      write_row(row, window.size, levels[0], to[0], luma);
    } else {
      const auto value = [](const uint8_t* p) { return int{*p}; };
      for (int c = 0; c < channels; ++c) write_row(row, window.size, levels[c], to[c], value);
    }
  }
}

}  // namespace siamese
