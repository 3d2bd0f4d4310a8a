// Which part of a picture is trained and evaluated on.
#include "images/crop.h"

#include <map>

#include "transform_runs.h"

namespace siamese {
namespace {

TEST(Crop, CenterTrainsOnTheWholeShorterSide) {
  const Image image = sample_image(24, 16);
  EXPECT_EQ(back(train(config_of("center"), image, 16), 16), cropped(image, 4, 0, 16));
}

TEST(Crop, PartsHaveTheSharesAndRatiosAsked) {
  Chances chances(RandomKey(1, 0, kTestSite));
  double least = 1, greatest = 0, narrow = 9, wide = 0;
  bool left = false, right = false;
  for (int i = 0; i < 5000; ++i) {
    const Box box = draw_part(500, 375, 0.08, chances);
    ASSERT_TRUE(box.x >= 0 && box.y >= 0 && box.x + box.width <= 500 && box.y + box.height <= 375);
    ASSERT_EQ(box.x, std::floor(box.x));
    const double share = box.width * box.height / (500 * 375), ratio = box.width / box.height;
    least = std::min(least, share);
    greatest = std::max(greatest, share);
    narrow = std::min(narrow, ratio);
    wide = std::max(wide, ratio);
    left = left || (box.x == 0 && box.width < 400);
    right = right || (box.x + box.width == 500 && box.width < 400);
  }
  EXPECT_NEAR(least, 0.08, 0.005);
  EXPECT_GT(greatest, 0.95);
  EXPECT_NEAR(narrow, 0.75, 0.02);
  EXPECT_NEAR(wide, 4.0 / 3, 0.03);
  EXPECT_TRUE(left && right);
}

// Shares up to a half always fit a square, so that nothing is rejected and they are uniform.
TEST(Crop, SharesAreUniform) {
  Chances chances(RandomKey(2, 0, kTestSite));
  int small = 0, kept = 0;
  for (int i = 0; i < 20000; ++i) {
    const Box box = draw_part(1000, 1000, 0.1, chances);
    const double share = box.width * box.height / 1e6;
    if (share > 0.5) continue;
    ++kept;
    small += share < 0.3 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(small) / kept, 0.5, 0.02);
}

TEST(Crop, FallsBackToTheCentre) {
  Chances chances(RandomKey(3, 0, kTestSite));
  const Box flat = draw_part(1000, 30, 0.9, chances), tall = draw_part(30, 1000, 0.9, chances);
  EXPECT_EQ(flat.width, 40);
  EXPECT_EQ(flat.height, 30);
  EXPECT_EQ(flat.x, 480);
  EXPECT_EQ(tall.height, 40);
  EXPECT_EQ(tall.y, 480);
  const Box pixel = draw_part(1, 1, 1, chances);
  EXPECT_EQ(pixel.width, 1);
}

TEST(Crop, ResizedCropOfASmoothPictureStaysInIt) {
  Image image(60, 45);
  for (int y = 0; y < 45; ++y)
    for (int x = 0; x < 60; ++x)
      for (int c = 0; c < 3; ++c) image.at(x, y)[c] = static_cast<uint8_t>(2 * x + y + 10 * c);
  AugmentConfig config = config_of("resized");
  for (int i = 0; i < 50; ++i) {
    const Image part = back(train(config, image, 16, i), 16);
    EXPECT_LT(part.at(0, 0)[0], part.at(15, 0)[0]);  // a part of a slope is a slope
    EXPECT_LT(part.at(0, 0)[0], part.at(0, 15)[0]);
    EXPECT_NEAR(part.at(8, 8)[2] - part.at(8, 8)[0], 20, 1);
  }
}

/// As torchvision does it: everything resized, then the centre.
TEST(Crop, EvaluateIsResizeThenCentreCrop) {
  AugmentConfig config = config_of("resized");
  const int shorter = 18;  // round(16/0.875)
  for (const auto& [width, height] : {std::pair{50, 37}, {37, 50}, {40, 40}, {9, 7}, {400, 30}}) {
    const Image image = sample_image(width, height);
    const int w = width <= height ? shorter : shorter * width / height;
    const int h = width <= height ? shorter * height / width : shorter;
    const Image all = resize(image, w, h, Filter::bicubic);
    const Image centre = cropped(all, static_cast<int>(std::nearbyint((w - 16) / 2.0)),
                                 static_cast<int>(std::nearbyint((h - 16) / 2.0)), 16);
    expect_pixels(back(evaluate(config, image, 16), 16), {centre.pixels.begin(), centre.pixels.end()}, 1);
  }
}

TEST(Crop, EvaluateTakesAnyRatioAndShape) {
  AugmentConfig config = config_of("resized");
  for (const double ratio : {1e-12, 0.3, 1.0}) {
    config.crop_ratio = ratio;
    for (const auto& [width, height] : {std::pair{1, 1}, {1, 3000}, {3000, 1}})
      EXPECT_EQ(back(evaluate(config, Image(width, height, 3, 60), 16), 16), Image(16, 16, 3, 60));
  }
}

TEST(Crop, EvaluateTakesTheWholeAtRatioOne) {
  AugmentConfig config = config_of("resized");
  config.crop_ratio = 1;
  const Image image = sample_image(16, 16);
  EXPECT_EQ(back(evaluate(config, image, 16), 16), image);
}

TEST(Crop, PaddedCropShiftsOntoBlack) {
  const Image image = sample_image(8, 8);
  AugmentConfig config = config_of("padded");
  config.padding = 2;
  for (const double flip : {0.0, 1.0}) {
    config.flip = flip;
    std::map<std::pair<int, int>, int> seen;
    for (int i = 0; i < 1000; ++i) {
      const Image result = back(train(config, image, 8, i), 8);
      for (int y = -2; y <= 2; ++y)
        for (int x = -2; x <= 2; ++x) {
          const Image shifted = cropped(image, x, y, 8);
          if (result == (flip == 1 ? mirrored(shifted) : shifted)) ++seen[{x, y}];
        }
    }
    EXPECT_EQ(seen.size(), 25u);
    int all = 0;
    for (const auto& [shift, times] : seen) all += times;
    EXPECT_EQ(all, 1000);
  }
}

TEST(Crop, PaddingMayExceedThePicture) {
  AugmentConfig config = config_of("padded");
  config.padding = 50;
  config.flip = 0.5;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(train(config, sample_image(8, 8), 8, i).size(), 192u);
}

TEST(Crop, LeastSide) {
  AugmentConfig config = config_of("none");
  EXPECT_EQ(Transform(config, 224, 3).least_side(), 224);
  config.crop = "center";
  EXPECT_EQ(Transform(config, 224, 3).least_side(), 256);
  config.crop = "resized";
  EXPECT_EQ(Transform(config, 224, 3).least_side(), 915);  // the smallest part is 0.245 of the shorter side
  config.crop_scale = 1;
  EXPECT_EQ(Transform(config, 224, 3).least_side(), 259);
}

}  // namespace
}  // namespace siamese
