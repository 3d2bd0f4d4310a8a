// Mixup and CutMix: the draw, known batches and the targets.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "images/transform.h"
#include "util/error.h"

namespace siamese {
namespace {

AugmentConfig mixing(double mixup, double cutmix) {
  AugmentConfig config;
  config.mixup = mixup;
  config.cutmix = cutmix;
  return config;
}

Mix draw(const AugmentConfig& config, int i, int size = 32) {
  return draw_mix(config, size, RandomKey(1, static_cast<uint64_t>(i), kTestSite));
}

TEST(Mix, OffMeansUnchanged) {
  const Mix mix = draw(mixing(0, 0), 0);
  EXPECT_EQ(mix.lambda, 1);
  EXPECT_FALSE(mix.cut());
}

// Beta(α, α) has mean ½ and variance 1/(4(2α + 1)).
TEST(Mix, MixupDrawsFromBeta) {
  const AugmentConfig config = mixing(0.8, 0);
  double sum = 0, squares = 0;
  const int draws = 4000;
  for (int i = 0; i < draws; ++i) {
    const Mix mix = draw(config, i);
    EXPECT_FALSE(mix.cut());
    sum += mix.lambda;
    squares += mix.lambda * mix.lambda;
  }
  EXPECT_NEAR(sum / draws, 0.5, 0.02);
  EXPECT_NEAR(squares / draws - std::pow(sum / draws, 2), 1 / (4 * 2.6), 0.01);
}

TEST(Mix, LambdaIsTheBoxesTrueArea) {
  const AugmentConfig config = mixing(0, 1);
  double shown = 0;
  int clipped = 0;
  const int draws = 4000;
  for (int i = 0; i < draws; ++i) {
    const Mix mix = draw(config, i, 20);
    ASSERT_TRUE(mix.x0 >= 0 && mix.y0 >= 0 && mix.x1 <= 20 && mix.y1 <= 20 && mix.x0 <= mix.x1 && mix.y0 <= mix.y1);
    EXPECT_NEAR(mix.lambda, 1 - (mix.x1 - mix.x0) * (mix.y1 - mix.y0) / 400.0, 1e-12);
    shown += 1 - mix.lambda;
    clipped += mix.x1 - mix.x0 != mix.y1 - mix.y0 ? 1 : 0;
  }
  EXPECT_GT(clipped, draws / 4);
  // With share s² uniform and a uniform centre, a side of s keeps s - s²/4, so that E[(s - s²/4)²] = 0.5 - 0.2 + 1/48
  // is shown; less for sides cut off to even numbers.
  EXPECT_NEAR(shown / draws, 0.32, 0.06);
}

TEST(Mix, SwitchesBetweenBoth) {
  AugmentConfig config = mixing(0.8, 1);
  config.mix_switch = 0.25;
  int cut = 0, off = 0;
  for (int i = 0; i < 4000; ++i) cut += draw(config, i, 224).cut() ? 1 : 0;
  EXPECT_NEAR(cut, 1000, 120);
  config.mix_probability = 0.75;
  for (int i = 0; i < 4000; ++i) off += draw(config, i, 224).lambda == 1 ? 1 : 0;
  EXPECT_NEAR(off, 1000, 120);
}

TEST(Mix, SameKeySameDraw) {
  const AugmentConfig config = mixing(0.8, 1);
  const Mix a = draw(config, 7), b = draw(config, 7), c = draw(config, 8);
  EXPECT_EQ(a.lambda, b.lambda);
  EXPECT_EQ(a.x0, b.x0);
  EXPECT_NE(a.lambda, c.lambda);
}

// Three pictures of one channel and 2×2 pixels; the middle one is its own partner.
TEST(Mix, MixupOfAKnownBatch) {
  std::vector<float> images = {0, 1, 2, 3, 5, 5, 5, 5, 10, 20, 30, 40};
  apply_mix({.lambda = 0.75}, images, 3, 1, 2);
  const std::vector<float> expected = {2.5f, 5.75f, 9, 12.25f, 5, 5, 5, 5, 7.5f, 15.25f, 23, 30.75f};
  EXPECT_EQ(images, expected);
}

TEST(Mix, CutmixOfAKnownBatch) {
  const int size = 3, channels = 2, image = size * size * channels;
  std::vector<float> images(4 * image);
  std::iota(images.begin(), images.end(), 0.0f);
  const std::vector<float> before = images;
  apply_mix({.lambda = 7.0 / 9, .x0 = 1, .y0 = 0, .x1 = 2, .y1 = 2}, images, 4, channels, size);
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < image; ++k) {
      const int x = k % size, y = k / size % size;
      const int from = x == 1 && y < 2 ? 3 - i : i;
      EXPECT_EQ(images[static_cast<size_t>(i * image + k)], before[static_cast<size_t>(from * image + k)])
          << i << ' ' << k;
    }
}

TEST(Mix, UnmixedBatchStays) {
  std::vector<float> images = {1, 2, 3, 4};
  apply_mix({}, images, 4, 1, 1);
  EXPECT_EQ(images, (std::vector<float>{1, 2, 3, 4}));
  apply_mix({.lambda = 0.5}, {}, 0, 3, 8);
}

TEST(Mix, TargetsOfAKnownBatch) {
  const std::vector<int64_t> labels = {0, 2, 2, 1};
  std::vector<float> targets(4 * 4);
  mixed_targets({.lambda = 0.75}, labels, 0.0, 4, targets);
  EXPECT_EQ(targets, (std::vector<float>{0.75f, 0.25f, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0.25f, 0.75f, 0, 0}));
}

// off = s/K = 0.05, on = 1 - s + s/K = 0.85; the mixture of two such rows.
TEST(Mix, TargetsAreSmoothedFirst) {
  const std::vector<int64_t> labels = {3, 1};
  std::vector<float> targets(2 * 4);
  mixed_targets({.lambda = 0.6}, labels, 0.2, 4, targets);
  const double on = 0.85, off = 0.05, own = 0.6 * on + 0.4 * off, other = 0.4 * on + 0.6 * off;
  const double expected[] = {off, other, off, own, off, own, off, other};
  for (size_t i = 0; i < targets.size(); ++i) EXPECT_NEAR(targets[i], expected[i], 1e-6) << i;
}

TEST(Mix, TargetsSumToOne) {
  std::vector<int64_t> labels;
  for (int i = 0; i < 17; ++i) labels.push_back(i * 7 % 10);
  std::vector<float> targets(17 * 10);
  for (const double smoothing : {0.0, 0.1, 0.5}) {
    for (int draws = 0; draws < 20; ++draws) {
      mixed_targets(draw(mixing(0.8, 1), draws), labels, smoothing, 10, targets);
      for (size_t i = 0; i < labels.size(); ++i)
        EXPECT_NEAR(std::accumulate(&targets[i * 10], &targets[i * 10] + 10, 0.0), 1, 1e-6);
    }
  }
}

TEST(Mix, Refusals) {
  std::vector<float> images(8), targets(4);
  const std::vector<int64_t> labels = {0, 2}, negative = {-1, 0};
  EXPECT_THROW(apply_mix({}, images, 3, 1, 2), Error);
  EXPECT_THROW(apply_mix({.lambda = 0.5, .x0 = 0, .y0 = 0, .x1 = 3, .y1 = 1}, images, 2, 1, 2), Error);
  EXPECT_THROW(mixed_targets({}, labels, 0.1, 2, targets), Error);
  EXPECT_THROW(mixed_targets({}, negative, 0.1, 2, targets), Error);
  EXPECT_THROW(mixed_targets({}, labels, 0.1, 3, targets), Error);
  EXPECT_THROW(draw_mix(mixing(1, 0), 0, RandomKey(1, 0, kTestSite)), Error);
}

}  // namespace
}  // namespace siamese
