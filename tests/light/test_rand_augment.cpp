// RandAugment: the arguments of the operations, and how often each is drawn.
#include "images/rand_augment.h"

#include <array>
#include <cmath>
#include <set>

#include "images/pixel_ops.h"
#include "sample_image.h"
#include "util/error.h"

namespace siamese {
namespace {

constexpr Fill kFill = {124, 116, 104};

Operation operation_at(int i) { return static_cast<Operation>(i); }

/// All arguments that occur at a level.
std::set<double> arguments_at(Operation operation, double level) {
  Chances chances(RandomKey(1, 0, kTestSite));
  std::set<double> arguments;
  for (int i = 0; i < 64; ++i) arguments.insert(argument_of(operation, level, chances));
  return arguments;
}

void expect_arguments(Operation operation, double level, std::vector<double> expected) {
  const std::set<double> found = arguments_at(operation, level);
  std::sort(expected.begin(), expected.end());
  ASSERT_EQ(found.size(), expected.size()) << name_of(operation) << ' ' << level;
  size_t i = 0;
  for (const double argument : found) EXPECT_NEAR(argument, expected[i++], 1e-12) << name_of(operation) << ' ' << level;
}

// The numbers are timm's (1.0.30) for "inc1".
TEST(RandAugment, ArgumentsOfLevelNine) {
  for (const Operation plain : {Operation::auto_contrast, Operation::equalize, Operation::invert})
    expect_arguments(plain, 9, {0});
  expect_arguments(Operation::rotate, 9, {-27, 27});
  expect_arguments(Operation::posterize, 9, {1});
  expect_arguments(Operation::solarize, 9, {26});
  expect_arguments(Operation::solarize_add, 9, {99});
  for (const Operation enhancer : {Operation::color, Operation::contrast, Operation::brightness, Operation::sharpness})
    expect_arguments(enhancer, 9, {0.19, 1.81});
  for (const Operation shear : {Operation::shear_x, Operation::shear_y}) expect_arguments(shear, 9, {-0.27, 0.27});
  for (const Operation shift : {Operation::translate_x, Operation::translate_y})
    expect_arguments(shift, 9, {-0.405, 0.405});
}

TEST(RandAugment, ArgumentsOfOtherLevels) {
  expect_arguments(Operation::posterize, 0, {4});
  expect_arguments(Operation::posterize, 2.4, {4});
  expect_arguments(Operation::posterize, 5, {2});
  expect_arguments(Operation::posterize, 7.5, {1});
  expect_arguments(Operation::posterize, 10, {0});
  expect_arguments(Operation::solarize, 0, {256});
  expect_arguments(Operation::solarize, 2.4, {195});
  expect_arguments(Operation::solarize, 9.99, {1});
  expect_arguments(Operation::solarize, 10, {0});
  expect_arguments(Operation::solarize_add, 2.4, {26});
  expect_arguments(Operation::solarize_add, 9.99, {109});
  expect_arguments(Operation::rotate, 7.5, {-22.5, 22.5});
  expect_arguments(Operation::color, 10, {0.1, 1.9});
  expect_arguments(Operation::color, 0, {1});
}

TEST(RandAugment, BothSignsAreEquallyLikely) {
  Chances chances(RandomKey(2, 0, kTestSite));
  int positive = 0;
  for (int i = 0; i < 4000; ++i) positive += argument_of(Operation::shear_x, 9, chances) > 0 ? 1 : 0;
  EXPECT_NEAR(positive, 2000, 100);
}

TEST(RandAugment, AppliesWhatIsNamed) {
  const Image image = sample_image(20, 20);
  const auto applied = [&](Operation operation, double argument) {
    Image copy = image;
    apply(operation, argument, Filter::bilinear, kFill, copy);
    return copy;
  };
  const auto changed = [&](auto operation, auto... arguments) {
    Image copy = image;
    operation(copy, arguments...);
    return copy;
  };
  EXPECT_EQ(applied(Operation::auto_contrast, 0), changed(auto_contrast));
  EXPECT_EQ(applied(Operation::equalize, 0), changed(equalize));
  EXPECT_EQ(applied(Operation::invert, 0), changed(invert));
  EXPECT_EQ(applied(Operation::posterize, 2), changed(posterize, 2));
  EXPECT_EQ(applied(Operation::solarize, 26), changed(solarize, 26));
  EXPECT_EQ(applied(Operation::solarize_add, 99), changed(solarize_add, 99, 128));
  EXPECT_EQ(applied(Operation::color, 0.19), changed(color, 0.19));
  EXPECT_EQ(applied(Operation::contrast, 0.19), changed(contrast, 0.19));
  EXPECT_EQ(applied(Operation::brightness, 0.19), changed(brightness, 0.19));
  EXPECT_EQ(applied(Operation::sharpness, 0.19), changed(sharpness, 0.19));
  EXPECT_EQ(applied(Operation::rotate, 27), rotate(image, 27, Filter::bilinear, kFill));
  EXPECT_EQ(applied(Operation::shear_x, 0.27), shear_x(image, 0.27, Filter::bilinear, kFill));
  EXPECT_EQ(applied(Operation::shear_y, 0.27), shear_y(image, 0.27, Filter::bilinear, kFill));
  EXPECT_EQ(applied(Operation::translate_x, 0.4), translate_x(image, 0.4, Filter::bilinear, kFill));
  EXPECT_EQ(applied(Operation::translate_y, 0.4), translate_y(image, 0.4, Filter::bilinear, kFill));
}

/// A picture that every operation changes in its own way: values between 10 and 160, more than equalize needs.
Image telling_image() {
  Image image = sample_image(24, 24);
  for (uint8_t& v : image.pixels) v = static_cast<uint8_t>(10 + v * 150 / 255);
  return image;
}

/// How often each operation is what became of the picture, all drawn at levels of `levels`; last: none of them.
std::array<int, kOperations + 1> count(const RandAugmentOptions& options, const std::vector<double>& levels,
                                       int draws) {
  const Image image = telling_image();
  std::vector<std::pair<Image, int>> results;
  for (int i = 0; i < kOperations; ++i)
    for (const double level : levels)
      for (const double argument : arguments_at(operation_at(i), level)) {
        Image result = image;
        apply(operation_at(i), argument, Filter::bicubic, kFill, result);
        results.emplace_back(std::move(result), i);
      }
  std::array<int, kOperations + 1> counts{};
  for (int i = 0; i < draws; ++i) {
    Image result = image;
    Chances chances(RandomKey(3, static_cast<uint64_t>(i), kTestSite));
    rand_augment(result, options, chances);
    const auto same = std::find_if(results.begin(), results.end(), [&](const auto& r) { return r.first == result; });
    ++counts[same == results.end() ? kOperations : static_cast<size_t>(same->second)];
  }
  return counts;
}

// χ² with k cells has mean k - 1 and deviation √(2(k - 1)); five deviations above are allowed.
TEST(RandAugment, DrawsAllOperationsEquallyOften) {
  const RandAugmentOptions options{.deviation = 0, .operations = 1, .probability = 1, .fill = kFill};
  const int draws = 6000;
  const auto counts = count(options, {9}, draws);
  EXPECT_EQ(counts[kOperations], 0);
  const double expected = static_cast<double>(draws) / kOperations;
  double chi2 = 0;
  for (int i = 0; i < kOperations; ++i) chi2 += std::pow(counts[static_cast<size_t>(i)] - expected, 2) / expected;
  EXPECT_LT(chi2, kOperations - 1 + 5 * std::sqrt(2.0 * (kOperations - 1)));
}

TEST(RandAugment, AppliesEachWithHalfTheProbability) {
  const Image image = telling_image();
  for (const int operations : {0, 1, 2, 3}) {
    int untouched = 0;
    for (int i = 0; i < 2000; ++i) {
      Image result = image;
      Chances chances(RandomKey(4, static_cast<uint64_t>(i), kTestSite));
      rand_augment(result, {.operations = operations}, chances);
      untouched += result == image ? 1 : 0;
    }
    EXPECT_NEAR(untouched, 2000 * std::pow(0.5, operations), 100) << operations;
  }
}

// A deviation this large leaves hardly anything between the ends of the range, where levels are cut off.
TEST(RandAugment, LevelsStayBetweenZeroAndTen) {
  const RandAugmentOptions options{.magnitude = 5, .deviation = 1e6, .operations = 1, .probability = 1, .fill = kFill};
  EXPECT_EQ(count(options, {0, 10}, 2000)[kOperations], 0);
}

TEST(RandAugment, MagnitudeVaries) {
  const RandAugmentOptions options{.operations = 1, .probability = 1, .fill = kFill};
  const auto counts = count(options, {9}, 2000);
  EXPECT_GT(counts[kOperations], 2000 * 9 / 15);  // eleven operations take a number that varies
}

TEST(RandAugment, InterpolationByName) {
  EXPECT_EQ(interpolation_of("bilinear"), Interpolation::bilinear);
  EXPECT_EQ(interpolation_of("bicubic"), Interpolation::bicubic);
  EXPECT_THROW(interpolation_of("nearest"), Error);
  Chances chances(RandomKey(5, 0, kTestSite));
  int bicubic = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(draw_filter(Interpolation::bilinear, chances), Filter::bilinear);
    bicubic += draw_filter(interpolation_of("random"), chances) == Filter::bicubic ? 1 : 0;
  }
  EXPECT_NEAR(bicubic, 500, 60);
}

}  // namespace
}  // namespace siamese
