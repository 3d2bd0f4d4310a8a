#include "images/resize.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "images/resize_rows.h"
#include "util/error.h"

namespace siamese {
namespace {

double bilinear(double x) {
  x = std::fabs(x);
  return x < 1 ? 1 - x : 0;
}

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// A side of the box. Float, because Pillow's boxes are: the same weights to the last digit.
struct Side {
  float begin, end;
  int size;  // of the picture
  bool whole(int outputs) const { return begin == 0 && end == static_cast<float>(outputs) && size == outputs; }
};

/// The inputs around `centre` that a filter reaches.
struct Window {
  int first, count;
  Window(double centre, double support, int size) {
    first = std::max(static_cast<int>(centre - support + 0.5), 0);
    count = std::min(static_cast<int>(centre + support + 0.5), size) - first;
  }
};

/// The filter around each output's centre, widened to the output's pixels where these are the wider ones. The order of
/// the steps is Pillow's, to the rounding.
template <double filter(double)>
Weights weights_for(const Side& side, int outputs, double radius) {
  const double scale = static_cast<double>(side.end - side.begin) / outputs, stretch = std::max(scale, 1.0);
  const double support = radius * stretch, shrink = 1 / stretch;
  const auto centre = [&](int output) { return side.begin + (output + 0.5) * scale; };
  Weights result;
  for (int x = 0; x < outputs; ++x) result.count = std::max(result.count, Window(centre(x), support, side.size).count);
  result.stride = (result.count + 1) / 2 * 2;
  result.first.resize(outputs);
  result.values.resize(static_cast<size_t>(outputs) * result.stride);
  std::vector<double> share(result.count);
  for (int x = 0; x < outputs; ++x) {
    const Window window(centre(x), support, side.size);
    double sum = 0;
    for (int i = 0; i < window.count; ++i) sum += share[i] = filter((i + window.first - centre(x) + 0.5) * shrink);
    result.first[x] = std::min(window.first, side.size - result.count);
    int32_t* const values = &result.values[static_cast<size_t>(x) * result.stride + window.first - result.first[x]];
    for (int i = 0; i < window.count; ++i) {
      const double scaled = (sum != 0 ? share[i] / sum : share[i]) * (1 << kWeightBits);
      values[i] = static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
  }
  return result;
}

Weights weights_for(const Side& side, int outputs, Filter filter) {
  return filter == Filter::bilinear ? weights_for<bilinear>(side, outputs, 1) : weights_for<bicubic>(side, outputs, 2);
}

Side side_of(double begin, double extent, int size, const char* what) {
  const Side side{static_cast<float>(begin), static_cast<float>(begin + extent), size};
  if (side.begin >= 0 && side.begin < side.end && side.end <= static_cast<float>(size)) return side;  // false for NaN
  fail("resize: {} {} to {} is not inside a picture of {}", what, begin, begin + extent, size);
}

/// Rows first … first + count - 1 of `image`, each resized to the weights' outputs.
std::unique_ptr<uint8_t[]> resize_columns(const Image& image, const Weights& weights, int first, int count) {
  const int64_t length = int64_t{image.width} * image.channels;
  const int64_t length_out = static_cast<int64_t>(weights.first.size()) * image.channels;
  auto rows = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(length_out * count));
  // Nothing may be read behind the picture: its last rows are filtered where there is room behind them.
  const int64_t unsafe = (kRowPadding + length - 1) / length;
  const int copied = static_cast<int>(std::clamp<int64_t>(first + count - (image.height - unsafe), 0, count));
  const uint8_t* const begin = image.at(0, first);
  filter_columns(begin, length, count - copied, image.channels, weights, rows.get());
  if (copied > 0) {
    std::vector<uint8_t> room(static_cast<size_t>(copied * length + kRowPadding));
    std::copy_n(begin + (count - copied) * length, copied * length, room.begin());
    filter_columns(room.data(), length, copied, image.channels, weights, rows.get() + (count - copied) * length_out);
  }
  return rows;
}

}  // namespace

Part reach_of(const Box& box, int image_width, int image_height, int width, int height, Filter filter) {
  const double radius = filter == Filter::bilinear ? 1 : 2;
  // A pixel more on each side than the filter has: what is rounded how does not matter so.
  const auto along = [radius](double begin, double extent, int size, int outputs) {
    const double support = radius * std::max(extent / outputs, 1.0) + 1;
    const double first = std::clamp(std::floor(begin - support), 0.0, static_cast<double>(size));
    const double end = std::clamp(std::ceil(begin + extent + support), 0.0, static_cast<double>(size));
    return std::pair{static_cast<int>(first), static_cast<int>(end - first)};
  };
  const auto [x, columns] = along(box.x, box.width, image_width, width);
  const auto [y, rows] = along(box.y, box.height, image_height, height);
  return {x, y, columns, rows};
}

Image resize(const Image& image, const Box& box, int width, int height, Filter filter) {
  if (width < 1 || height < 1) fail("resize: cannot make a picture of {} x {}", width, height);
  if (image.channels != 1 && image.channels != 3) fail("resize: a picture of {} channels", image.channels);
  const Side across = side_of(box.x, box.width, image.width, "columns");
  const Side down = side_of(box.y, box.height, image.height, "rows");
  // As in Pillow, a direction in which nothing changes is left out; with both passes the result would be the same.
  const bool same_columns = across.whole(width), same_rows = down.whole(height);
  if (same_columns && same_rows) return image;

  Weights vertical;
  int first = 0, last = image.height;
  if (!same_rows) {
    vertical = weights_for(down, height, filter);
    first = vertical.first.front();
    last = vertical.first.back() + vertical.count;
  }
  Image result(width, height, image.channels);
  const size_t length = static_cast<size_t>(width) * image.channels;
  std::unique_ptr<uint8_t[]> narrowed;
  const uint8_t* rows = image.pixels.data() + first * length;
  if (!same_columns) {
    narrowed = resize_columns(image, weights_for(across, width, filter), first, last - first);
    rows = narrowed.get();
  }
  if (same_rows) {
    std::copy_n(rows, result.pixels.size(), result.pixels.begin());
    return result;
  }
  for (int y = 0; y < height; ++y) {
    filter_rows(rows + (vertical.first[y] - first) * length, static_cast<int64_t>(length), vertical.of(y),
                vertical.count, result.at(0, y));
  }
  return result;
}

}  // namespace siamese
