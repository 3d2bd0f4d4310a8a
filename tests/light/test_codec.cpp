#include "images/codec.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "data_files.h"
#include "image_files.h"

namespace siamese {
namespace {

using namespace image_files;

Image decode(const std::string& file, const DecodeOptions& options = {}) {
  return decode_image(bytes_of(file), "FILE", options);
}

double mean_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

Image grey_repeated(const Image& grey) {
  Image image(grey.width, grey.height);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = grey.pixels[i / 3];
  return image;
}

TEST(Codec, PngComesBackExactly) {
  const DataFolder folder;
  const std::string path = folder.write("picture.png", "what was there before");
  for (const auto& [width, height] : {std::pair{33, 17}, {1, 1}, {20000, 1}, {1, 20000}}) {
    write_png(path, noise(width, height));
    EXPECT_EQ(read_image(path), noise(width, height));
    write_png(path, noise(width, height, 1));
    EXPECT_EQ(read_image(path), grey_repeated(noise(width, height, 1)));
  }
}

TEST(Codec, JpegComesBackNearly) {
  const DataFolder folder;
  const std::string path = folder.write("picture.jpg", "");
  for (const auto& [width, height] : {std::pair{133, 97}, {1, 1}, {20000, 1}, {1, 20000}}) {
    write_jpeg(path, smooth(width, height));
    EXPECT_LT(mean_difference(read_image(path), smooth(width, height)), 2);
    write_jpeg(path, smooth(width, height, 1), 95);
    EXPECT_LT(mean_difference(read_image(path), grey_repeated(smooth(width, height, 1))), 1);
  }
  write_jpeg(path, noise(64, 64), 100);
  const auto large = std::filesystem::file_size(path);
  write_jpeg(path, noise(64, 64), 10);
  EXPECT_LT(std::filesystem::file_size(path) * 3, large);
}

/// 16 bits to 8 as libpng's manual gives it: the nearest value, not the upper byte.
int to_8_bits(int value, int depth) {
  return depth == 16 ? (value * 255 + 32895) >> 16 : value * 255 / ((1 << depth) - 1);
}

void expect_png(const PngKind& kind) {
  const int most = (1 << kind.depth) - 1, indices = std::min(1 << kind.depth, 16);
  const bool indexed = kind.type == PNG_COLOR_TYPE_PALETTE, alpha = kind.type & PNG_COLOR_MASK_ALPHA;
  const int channels = kind.channels(), colours = alpha ? channels - 1 : channels;
  const Sample sample = [&](int x, int y, int c) {
    return indexed ? (x + 3 * y) % indices : ((x * 1021 + y * 4099 + c * 16411) ^ (x * y)) & most;
  };
  const Image image = decode(make_png(21, 13, kind, sample));
  ASSERT_EQ(image.width, 21);
  ASSERT_EQ(image.height, 13);
  for (int y = 0; y < 13; ++y) {
    for (int x = 0; x < 21; ++x) {
      int wanted[3], opacity = 255;
      bool key = kind.transparent;  // the first pixel's colour
      for (int c = 0; c < 3; ++c) {
        const int value = sample(x, y, std::min(c, colours - 1));
        wanted[c] = to_8_bits(value, kind.depth);
        key = key && value == sample(0, 0, std::min(c, colours - 1));
      }
      if (indexed) {
        const png_color color = palette_color(sample(x, y, 0));
        wanted[0] = color.red, wanted[1] = color.green, wanted[2] = color.blue;
        if (kind.transparent) opacity = palette_alpha(sample(x, y, 0));
      } else if (alpha) {
        opacity = to_8_bits(sample(x, y, channels - 1), kind.depth);
      } else if (key) {
        opacity = 0;
      }
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(image.at(x, y)[c], (wanted[c] * opacity + 127) / 255)
            << "type " << kind.type << ", depth " << kind.depth << ", interlaced " << kind.interlaced
            << ", transparent " << kind.transparent << " at " << x << ", " << y;
      }
    }
  }
}

TEST(Codec, EveryKindOfPng) {
  const std::vector<std::pair<int, std::vector<int>>> depths = {{PNG_COLOR_TYPE_GRAY, {1, 2, 4, 8, 16}},
                                                                {PNG_COLOR_TYPE_GRAY_ALPHA, {8, 16}},
                                                                {PNG_COLOR_TYPE_PALETTE, {1, 2, 4, 8}},
                                                                {PNG_COLOR_TYPE_RGB, {8, 16}},
                                                                {PNG_COLOR_TYPE_RGB_ALPHA, {8, 16}}};
  for (const auto& [type, choices] : depths) {
    for (const int depth : choices) {
      for (const bool interlaced : {false, true}) {
        expect_png({type, depth, interlaced, false});
        if ((type & PNG_COLOR_MASK_ALPHA) == 0) expect_png({type, depth, interlaced, true});
      }
    }
  }
}

TEST(Codec, EveryKindOfJpeg) {
  const Image color = smooth(61, 43), grey = smooth(61, 43, 1);
  for (const bool progressive : {false, true}) {
    EXPECT_LT(mean_difference(decode(make_jpeg(color, {.progressive = progressive})), color), 2);
    EXPECT_LT(mean_difference(decode(make_jpeg(color, {JCS_RGB, JCS_RGB, progressive, true})), color), 2);
    EXPECT_LT(
        mean_difference(decode(make_jpeg(grey, {JCS_GRAYSCALE, JCS_GRAYSCALE, progressive})), grey_repeated(grey)), 1);
  }
  EXPECT_LT(mean_difference(decode(make_jpeg(color, {.scans_apart = true})), color), 2);
}

TEST(Codec, CmykBecomesRgb) {
  Image inks(40, 24, 4), adobe(40, 24, 4), wanted(40, 24);
  for (int y = 0; y < 24; ++y) {
    for (int x = 0; x < 40; ++x) {
      const int ink[4] = {5 * x, 10 * y, 128, 2 * x + y};
      for (int c = 0; c < 4; ++c) {
        inks.at(x, y)[c] = static_cast<uint8_t>(ink[c]);
        adobe.at(x, y)[c] = static_cast<uint8_t>(255 - ink[c]);
      }
      for (int c = 0; c < 3; ++c) wanted.at(x, y)[c] = static_cast<uint8_t>((255 - ink[c]) * (255 - ink[3]) / 255);
    }
  }
  for (const bool progressive : {false, true}) {
    EXPECT_LT(mean_difference(decode(make_jpeg(adobe, {JCS_CMYK, JCS_CMYK, progressive, true})), wanted), 2);
    EXPECT_LT(mean_difference(decode(make_jpeg(adobe, {JCS_CMYK, JCS_YCCK, progressive, true})), wanted), 4);
    EXPECT_LT(mean_difference(decode(make_jpeg(inks, {JCS_CMYK, JCS_CMYK, progressive, false})), wanted), 2);
  }
}

TEST(Codec, ScaledDecoding) {
  const std::string file = make_jpeg(smooth(500, 375), {});
  const struct {
    int least, width, height;
  } cases[] = {{0, 500, 375},  {-1, 500, 375}, {1000, 500, 375}, {375, 500, 375}, {189, 500, 375}, {188, 250, 188},
               {95, 250, 188}, {94, 125, 94},  {48, 125, 94},    {47, 63, 47},    {1, 63, 47}};
  for (const auto& c : cases) {
    const Image image = decode(file, {.least_side = c.least});
    EXPECT_EQ(image.width, c.width) << c.least;
    EXPECT_EQ(image.height, c.height) << c.least;
    EXPECT_LT(mean_difference(image, smooth(c.width, c.height)), 2) << c.least;
  }
  EXPECT_EQ(decode(make_jpeg(smooth(1, 1), {}), {.least_side = 1}).width, 1);
  EXPECT_EQ(decode(make_png(50, 40, {}, [](int, int, int) { return 9; }), {.least_side = 10}).width, 50);
}

TEST(Codec, Grid) {
  std::vector<Image> images;
  for (int i = 0; i < 5; ++i) images.emplace_back(4, 3, 3, static_cast<uint8_t>(10 * i));
  const Image grid = grid_of(images, 3, 2);
  ASSERT_EQ(grid.width, 3 * 4 + 2 * 2);
  ASSERT_EQ(grid.height, 2 * 3 + 2);
  for (int y = 0; y < grid.height; ++y) {
    for (int x = 0; x < grid.width; ++x) {
      const int index = y / 5 * 3 + x / 6;
      const bool inside = x % 6 < 4 && y % 5 < 3 && index < 5;
      for (int c = 0; c < 3; ++c) ASSERT_EQ(grid.at(x, y)[c], inside ? 10 * index : 255) << x << ", " << y;
    }
  }
  EXPECT_EQ(grid_of(std::span(images).first(2), 8, 0).width, 8);
  EXPECT_THROW(grid_of({}, 3), Error);
  EXPECT_THROW(grid_of(images, 0), Error);
  EXPECT_THROW(grid_of(images, 3, -1), Error);
  images.emplace_back(4, 4);
  EXPECT_THROW(grid_of(images, 3), Error);
}

}  // namespace
}  // namespace siamese
