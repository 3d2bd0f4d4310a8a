// From picture to model input: flip, jitter, normalising, erasing, grey.
#include <array>
#include <cmath>

#include "images/pixel_ops.h"
#include "images/resize.h"
#include "transform_runs.h"
#include "util/error.h"

namespace siamese {
namespace {

TEST(Transform, NormalizesByImageNet) {
  Image image(2, 2);
  const uint8_t pixel[] = {255, 128, 0};
  for (int i = 0; i < 4; ++i) std::copy_n(pixel, 3, &image.pixels[static_cast<size_t>(3 * i)]);
  const std::vector<float> out = evaluate({}, image, 2);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(out[i], (1 - 0.485) / 0.229, 1e-5);
    EXPECT_NEAR(out[4 + i], (128 / 255.0 - 0.456) / 0.224, 1e-5);
    EXPECT_NEAR(out[8 + i], -0.406 / 0.225, 1e-5);
  }
}

TEST(Transform, WithoutCropPixelsStay) {
  const Image image = sample_image(8, 8), other = sample_image(13, 9);
  EXPECT_EQ(back(train(config_of("none"), image, 8), 8), image);
  EXPECT_EQ(back(evaluate(config_of("none"), image, 8), 8), image);
  EXPECT_EQ(back(train(config_of("none"), other, 8), 8), resize(other, 8, 8, Filter::bicubic));
  EXPECT_EQ(back(evaluate(config_of("padded"), other, 8), 8), resize(other, 8, 8, Filter::bicubic));
}

TEST(Transform, FlipMirrors) {
  const Image image = sample_image(8, 8);
  AugmentConfig config = config_of("none");
  config.flip = 1;
  EXPECT_EQ(back(train(config, image, 8), 8), mirrored(image));
  config.flip = 0.3;
  int flipped = 0;
  for (int i = 0; i < 2000; ++i) flipped += back(train(config, image, 8, i), 8) == image ? 0 : 1;
  EXPECT_NEAR(flipped, 600, 80);
}

TEST(Transform, GreyModelsSeeBrightness) {
  const Image image = sample_image(8, 8);
  const Image grey = back(train(config_of("none"), image, 8, 0, 1), 8, 1);
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) EXPECT_EQ(*grey.at(x, y), luma(image.at(x, y)));
  const std::vector<float> normal = evaluate({}, Image(2, 2, 1, 255), 2, 1);
  EXPECT_NEAR(normal[0], (1 - 0.449) / 0.226, 1e-5);
}

TEST(Transform, GreyPicturesAreRepeated) {
  const Image grey = sample_image(8, 8, 1), colour = back(train(config_of("none"), grey, 8), 8);
  for (size_t i = 0; i < colour.pixels.size(); ++i) EXPECT_EQ(colour.pixels[i], grey.pixels[i / 3]);
  for (int i = 0; i < 20; ++i) train(deit(), grey, 8, i);
}

// On plain grey only brightness shows.
TEST(Transform, JitterFactorsAreUniform) {
  AugmentConfig config = config_of("none");
  config.color_jitter = 0.4;
  double low = 9, high = 0, sum = 0;
  for (int i = 0; i < 3000; ++i) {
    const double factor = back(train(config, Image(4, 4, 3, 100), 4, i), 4).pixels[0] / 100.0;
    low = std::min(low, factor);
    high = std::max(high, factor);
    sum += factor;
  }
  EXPECT_NEAR(low, 0.6, 0.011);
  EXPECT_NEAR(high, 1.4, 0.011);
  EXPECT_NEAR(sum / 3000, 1, 0.02);
}

/// Four pixels of a 2×2 picture.
using Four = std::array<std::array<int, 3>, 4>;

Image picture_of(const Four& pixels) {
  Image image(2, 2);
  for (size_t i = 0; i < 12; ++i) image.pixels[i] = static_cast<uint8_t>(pixels[i / 3][i % 3]);
  return image;
}

/// g + factor·(v - g), cut off to 0 … 255, with g = 0 (b: brightness), the mean of all luma, rounded (c: contrast) or
/// the pixel's own luma (s: saturation); luma = 0.299 R + 0.587 G + 0.114 B, rounded.
Four enhanced(Four pixels, char kind, double factor) {
  std::array<int, 4> grey{};
  for (size_t i = 0; i < 4; ++i)
    grey[i] = static_cast<int>(std::lround(0.299 * pixels[i][0] + 0.587 * pixels[i][1] + 0.114 * pixels[i][2]));
  const int mean = static_cast<int>(std::lround((grey[0] + grey[1] + grey[2] + grey[3]) / 4.0));
  for (size_t i = 0; i < 4; ++i)
    for (int& v : pixels[i]) {
      const int g = kind == 'b' ? 0 : kind == 'c' ? mean : grey[i];
      v = static_cast<int>(std::clamp(std::floor(g + factor * (v - g)), 0.0, 255.0));
    }
  return pixels;
}

constexpr Four kFour = {{{200, 100, 50}, {10, 20, 30}, {90, 60, 240}, {120, 130, 125}}};

// What key 4 draws, in its order, worked out by hand: lumas 143, 21, 100, 145 with mean 102 before the contrast, 129,
// 45, 100, 131 before the saturation.
TEST(Transform, JitterByHand) {
  const Four bright = {{{230, 115, 57}, {11, 23, 34}, {103, 69, 255}, {138, 149, 144}}};
  const Four flat = {{{190, 110, 70}, {39, 47, 54}, {102, 79, 207}, {126, 134, 131}}};
  const Four pale = {{{182, 112, 77}, {39, 46, 52}, {101, 81, 193}, {126, 133, 131}}};
  Image image = picture_of(kFour);
  brightness(image, 1.1532233364);
  EXPECT_EQ(image, picture_of(bright));
  contrast(image, 0.6922814432);
  EXPECT_EQ(image, picture_of(flat));
  color(image, 0.8778740219);
  EXPECT_EQ(image, picture_of(pale));
  AugmentConfig config = config_of("none");
  config.color_jitter = 0.4;
  EXPECT_EQ(back(train(config, picture_of(kFour), 2, 4), 2), picture_of(pale));
}

// One key for each of the six orders.
TEST(Transform, JitterInEveryOrder) {
  struct Drawn {
    int key;
    const char* order;
    std::array<double, 3> factors;
  };
  const Drawn all[] = {
      {0, "scb", {1.2968774145, 0.7643748357, 1.0438266589}}, {1, "cbs", {0.9031644487, 0.9099082326, 1.0742064939}},
      {4, "bcs", {1.1532233364, 0.6922814432, 0.8778740219}}, {6, "sbc", {0.7126465187, 1.0375797776, 0.7413308277}},
      {7, "bsc", {1.2497364416, 1.0999349111, 1.0175411400}}, {10, "csb", {1.3813760701, 0.6536139189, 1.0657466096}}};
  AugmentConfig config = config_of("none");
  config.color_jitter = 0.4;
  for (const Drawn& d : all) {
    Four want = kFour;
    for (size_t i = 0; i < 3; ++i) want = enhanced(want, d.order[i], d.factors[i]);
    EXPECT_EQ(back(train(config, picture_of(kFour), 2, d.key), 2), picture_of(want)) << d.order;
  }
}

TEST(Transform, JitterOfOneStaysPositive) {
  AugmentConfig config = config_of("none");
  config.color_jitter = 1;
  EXPECT_EQ(train(config, sample_image(8, 8), 8).size(), 192u);
}

TEST(Transform, RandAugmentReplacesJitter) {
  AugmentConfig with = deit(), without = deit();
  with.color_jitter = 0.4;
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(train(with, sample_image(30, 20), 16, i), train(without, sample_image(30, 20), 16, i));
}

// What moves in from outside has the mean colour, so that a plain picture of that colour stays plain.
TEST(Transform, RandAugmentFillsWithTheMean) {
  AugmentConfig config = deit();
  config.rand_augment_ops = 1;
  config.erasing = 0;
  Image image(20, 20);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = std::array<uint8_t, 3>{124, 116, 104}[i % 3];
  for (int i = 0; i < 200; ++i) {
    const std::vector<float> out = train(config, image, 16, i);
    for (size_t k = 0; k < out.size(); ++k) ASSERT_EQ(out[k], out[k / 256 * 256]);
  }
}

TEST(Transform, ErasesARectangleOfNoise) {
  AugmentConfig config = config_of("none");
  config.erasing = 0.25;
  const int size = 64;
  const Image image(size, size, 3, 255);
  int erased = 0;
  double sum = 0, squares = 0, count = 0, least = 1, greatest = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<float> out = train(config, image, size, i);
    int x0 = size, x1 = -1, y0 = size, y1 = -1, changed = 0;
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        const float red = out[static_cast<size_t>(y) * size + x];
        if (red == 1) continue;
        ++changed;
        sum += red;
        squares += red * red;
        x0 = std::min(x0, x), x1 = std::max(x1, x), y0 = std::min(y0, y), y1 = std::max(y1, y);
      }
    if (changed == 0) continue;
    ++erased;
    count += changed;
    const double width = x1 - x0 + 1, height = y1 - y0 + 1, share = changed / (1.0 * size * size);
    EXPECT_EQ(changed, width * height);
    EXPECT_GT(height / width, 0.3 * 0.85);  // sides are whole
    EXPECT_LT(height / width, 1 / 0.3 / 0.85);
    least = std::min(least, share);
    greatest = std::max(greatest, share);
  }
  EXPECT_NEAR(erased, 500, 75);
  EXPECT_NEAR(least, 0.02, 0.004);
  EXPECT_NEAR(greatest, 1.0 / 3, 0.02);
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 1, 0.02);
}

TEST(Transform, SameKeySameSample) {
  const Image image = sample_image(50, 37);
  int different = 0;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(train(deit(), image, 24, i), train(deit(), image, 24, i));
    different += train(deit(), image, 24, i) != train(deit(), image, 24, i + 1) ? 1 : 0;
  }
  EXPECT_EQ(different, 50);
}

TEST(Transform, EverySampleIsFinite) {
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 200}, {200, 3}, {17, 33}})
    for (int i = 0; i < 40; ++i)
      for (const float v : train(deit(), sample_image(width, height), 16, i)) ASSERT_TRUE(std::isfinite(v));
}

TEST(Transform, Refusals) {
  std::vector<float> out(3 * 8 * 8);
  const RandomKey key(1, 0, kTestSite);
  EXPECT_THROW(Transform({}, 8, 2), Error);
  EXPECT_THROW(Transform({}, 0, 3), Error);
  EXPECT_THROW(Transform(config_of("random"), 8, 3), Error);
  EXPECT_THROW(Transform({}, 8, 3).train(Image(), key, out), Error);
  EXPECT_THROW(Transform({}, 8, 3).evaluate(Image(8, 8, 4), out), Error);
  EXPECT_THROW(Transform({}, 7, 3).train(Image(7, 7), key, out), Error);
  AugmentConfig config;
  config.normalize = "none";
  EXPECT_THROW(Transform(config, 8, 3), Error);
}

}  // namespace
}  // namespace siamese
