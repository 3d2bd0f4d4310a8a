#include "images/resize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "image_files.h"
#include "util/error.h"
#include "util/files.h"

namespace siamese {
namespace {

using image_files::noise;
using Values = std::vector<uint8_t>;

// All numbers and hashes of this file come from Pillow 11.3 (Image.resize with box); 12.0 gives the same, 13.0 differs
// in the rounding of some pictures higher than wide.

TEST(Resize, ShrinksLikePillow) {
  EXPECT_EQ(resize(noise(9, 7), 4, 3, Filter::bilinear).pixels,
            (Values{90,  89,  149, 104, 141, 152, 121, 156, 177, 129, 150, 167, 166, 153, 135, 114, 181, 90,
                    114, 158, 129, 143, 106, 180, 162, 116, 113, 74,  137, 98,  116, 156, 97,  92,  113, 107}));
  EXPECT_EQ(resize(noise(9, 7), 4, 3, Filter::bicubic).pixels,
            (Values{84,  83,  149, 108, 142, 154, 121, 158, 181, 131, 149, 165, 174, 155, 138, 110, 192, 86,
                    110, 160, 126, 146, 102, 192, 167, 113, 113, 66,  136, 96,  122, 160, 92,  87,  110, 104}));
}

TEST(Resize, EnlargesLikePillow) {
  EXPECT_EQ(
      resize(noise(3, 3), 5, 4, Filter::bilinear).pixels,
      (Values{5,   4,   139, 68,  95,  95,  162, 232, 28,  140, 177, 102, 126, 140, 152, 127, 8,   171, 162, 44,
              152, 215, 98,  122, 158, 109, 175, 120, 116, 210, 164, 97,  214, 185, 79,  192, 218, 52,  160, 147,
              83,  195, 101, 104, 218, 103, 243, 254, 129, 189, 203, 169, 108, 127, 111, 108, 154, 73,  108, 172}));
  EXPECT_EQ(
      resize(noise(3, 3), 5, 4, Filter::bicubic).pixels,
      (Values{0,   0,   145, 54,  92,  90,  158, 243, 20,  145, 188, 98,  124, 134, 156, 130, 0,   170, 169, 25,
              148, 221, 92,  126, 162, 111, 182, 116, 117, 222, 173, 101, 218, 199, 73,  198, 224, 37,  170, 146,
              75,  203, 91,  106, 228, 93,  255, 255, 125, 206, 208, 165, 113, 124, 107, 104, 147, 64,  108, 171}));
}

TEST(Resize, FractionalBoxLikePillow) {
  const Box box{1.25, 0.5, 6.5, 4.8};
  EXPECT_EQ(resize(noise(9, 7), box, 4, 3, Filter::bilinear).pixels,
            (Values{101, 125, 157, 92,  150, 143, 127, 156, 177, 109, 185, 166, 144, 188, 138, 102, 191, 91,
                    95,  147, 132, 141, 118, 155, 167, 176, 118, 80,  156, 78,  133, 179, 116, 109, 162, 166}));
  EXPECT_EQ(resize(noise(9, 7), box, 4, 3, Filter::bicubic).pixels,
            (Values{98, 119, 160, 89,  148, 147, 134, 154, 184, 103, 195, 166, 151, 194, 141, 98,  202, 79,
                    88, 148, 127, 146, 109, 156, 177, 185, 115, 73,  155, 72,  137, 185, 114, 107, 162, 175}));
}

struct Case {
  int width, height, channels;
  Box box;
  int width_out, height_out;
  Filter filter;
  const char* hash;
};

// clang-format off
const Case kCases[] = {
    {500, 375, 3, {0, 0, 500, 375}, 224, 224, Filter::bilinear, "aedf40156ebaff14"},
    {500, 375, 3, {0, 0, 500, 375}, 224, 224, Filter::bicubic, "20d70a06620f2cd2"},
    {500, 375, 3, {37, 21, 400, 300}, 224, 224, Filter::bilinear, "fb91f4ca3c089aeb"},
    {500, 375, 3, {37, 21, 400, 300}, 224, 224, Filter::bicubic, "4ec198db87c61c32"},
    {500, 375, 3, {12.5, 30.25, 288.25, 220.25}, 224, 224, Filter::bilinear, "3d88c1633950d6ee"},
    {500, 375, 3, {12.5, 30.25, 288.25, 220.25}, 224, 224, Filter::bicubic, "22a551d50691aa9f"},
    {64, 48, 3, {0, 0, 64, 48}, 224, 224, Filter::bilinear, "5aff0b95263a1544"},
    {64, 48, 3, {0, 0, 64, 48}, 224, 224, Filter::bicubic, "a33712ad2f87b40d"},
    {32, 32, 3, {3, 2, 24, 29}, 32, 32, Filter::bilinear, "5e65362788144c93"},
    {32, 32, 3, {3, 2, 24, 29}, 32, 32, Filter::bicubic, "d208f737b540939e"},
    {20000, 1, 3, {0, 0, 20000, 1}, 224, 224, Filter::bilinear, "a60fd1dbca2162a6"},
    {20000, 1, 3, {0, 0, 20000, 1}, 224, 224, Filter::bicubic, "70d24b2b2a924b21"},
    {1, 3000, 3, {0, 0, 1, 3000}, 7, 5, Filter::bilinear, "dd9791cbf04ed698"},
    {1, 3000, 3, {0, 0, 1, 3000}, 7, 5, Filter::bicubic, "e44b11eafcbfd84a"},
    {1, 1, 3, {0, 0, 1, 1}, 17, 9, Filter::bilinear, "7a77fbb4603cb2fb"},
    {1, 1, 3, {0, 0, 1, 1}, 17, 9, Filter::bicubic, "7a77fbb4603cb2fb"},
    {2, 2, 3, {0, 0, 2, 2}, 33, 31, Filter::bilinear, "0c069afcdeab2c26"},
    {2, 2, 3, {0, 0, 2, 2}, 33, 31, Filter::bicubic, "0ce3673e53a74685"},
    {333, 77, 3, {0, 0, 333, 77}, 11, 77, Filter::bilinear, "315b6ea457cb1b72"},
    {333, 77, 3, {0, 0, 333, 77}, 11, 77, Filter::bicubic, "c5e356d2ff4524a6"},
    {333, 77, 3, {0, 0, 333, 77}, 333, 19, Filter::bilinear, "2eef4626db299525"},
    {333, 77, 3, {0, 0, 333, 77}, 333, 19, Filter::bicubic, "94823628e1d09c4a"},
    {500, 375, 1, {0, 0, 500, 375}, 224, 224, Filter::bilinear, "6349428a424a32ac"},
    {500, 375, 1, {0, 0, 500, 375}, 224, 224, Filter::bicubic, "cf96c36ec050ed13"},
    {28, 28, 1, {0.5, 1.5, 26.75, 24.5}, 56, 20, Filter::bilinear, "cd4384d4744bc8be"},
    {28, 28, 1, {0.5, 1.5, 26.75, 24.5}, 56, 20, Filter::bicubic, "e987dbefdc7091bb"},
    {97, 61, 3, {90.5, 58.5, 6.5, 2.5}, 40, 40, Filter::bilinear, "e32095fa9707e19b"},
    {97, 61, 3, {90.5, 58.5, 6.5, 2.5}, 40, 40, Filter::bicubic, "b3a44f35b37bd383"},
    {640, 480, 3, {0, 0, 640, 480}, 10, 10, Filter::bilinear, "de3374c52b488555"},
    {640, 480, 3, {0, 0, 640, 480}, 10, 10, Filter::bicubic, "8296b631463e2da9"},
};
// clang-format on

TEST(Resize, LargePicturesLikePillow) {
  for (const Case& c : kCases) {
    const Image image = noise(c.width, c.height, c.channels);
    const Image result = resize(image, c.box, c.width_out, c.height_out, c.filter);
    EXPECT_EQ(hash_bytes(std::as_bytes(std::span(result.pixels))), c.hash)
        << c.width << " x " << c.height << " to " << c.width_out << " x " << c.height_out;
  }
}

TEST(Resize, SameSizeChangesNothing) {
  for (const Filter filter : {Filter::bilinear, Filter::bicubic}) {
    EXPECT_EQ(resize(noise(31, 17), 31, 17, filter), noise(31, 17));
    EXPECT_EQ(resize(noise(1, 1, 1), 1, 1, filter), noise(1, 1, 1));
  }
}

TEST(Resize, BoxOfTheSameSizeIsACrop) {
  const Image image = noise(31, 17), part = resize(image, {5, 3, 12, 9}, 12, 9, Filter::bicubic);
  for (int y = 0; y < 9; ++y) {
    for (int x = 0; x < 12; ++x) {
      for (int c = 0; c < 3; ++c) ASSERT_EQ(part.at(x, y)[c], image.at(x + 5, y + 3)[c]) << x << ", " << y;
    }
  }
}

TEST(Resize, OneColourStaysOneColour) {
  for (const int value : {0, 1, 127, 254, 255}) {
    for (const Filter filter : {Filter::bilinear, Filter::bicubic}) {
      const Image image(53, 41, 3, static_cast<uint8_t>(value));
      for (const auto& [width, height] : {std::pair{7, 5}, {200, 3}, {3, 200}, {53, 100}, {129, 131}}) {
        EXPECT_EQ(resize(image, width, height, filter), Image(width, height, 3, static_cast<uint8_t>(value)));
        EXPECT_EQ(resize(image, {0.3, 1.7, 51.1, 38.2}, width, height, filter),
                  Image(width, height, 3, static_cast<uint8_t>(value)));
      }
    }
  }
}

/// Vectors take three channels at once, grey goes through the plain loop: they have to agree.
TEST(Resize, ColoursAreResizedOneByOne) {
  for (const int size : {1, 2, 3, 9, 30, 77}) {
    const Image image = noise(size, size + 4);
    const Image all = resize(image, 19, 23, Filter::bicubic);
    for (int c = 0; c < 3; ++c) {
      Image one(image.width, image.height, 1);
      for (size_t i = 0; i < one.pixels.size(); ++i) one.pixels[i] = image.pixels[3 * i + c];
      const Image grey = resize(one, 19, 23, Filter::bicubic);
      for (size_t i = 0; i < grey.pixels.size(); ++i) ASSERT_EQ(grey.pixels[i], all.pixels[3 * i + c]) << size;
    }
  }
}

TEST(Resize, RefusesWhatIsNotThere) {
  const Image image = noise(10, 10);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Box bad[] = {{0, 0, 11, 10}, {-1, 0, 5, 5},  {0, 9, 1, 2},   {0, 0, 0, 5},
                     {3, 3, -1, 2},  {nan, 0, 5, 5}, {0, 0, nan, 5}, {0, 0, 1e30, 5}};
  for (const Box& box : bad) EXPECT_THROW(resize(image, box, 4, 4, Filter::bilinear), Error);
  EXPECT_THROW(resize(image, 0, 4, Filter::bilinear), Error);
  EXPECT_THROW(resize(image, 4, -1, Filter::bilinear), Error);
  EXPECT_THROW(resize(Image(), 4, 4, Filter::bilinear), Error);
  EXPECT_THROW(resize(Image(3, 3, 2), 4, 4, Filter::bilinear), Error);
  // Rounding of a box that reaches the edge is not an error.
  EXPECT_NO_THROW(resize(image, {0.1, 0, 9.9 + 1e-14, 10}, 4, 4, Filter::bicubic));
}

}  // namespace
}  // namespace siamese
