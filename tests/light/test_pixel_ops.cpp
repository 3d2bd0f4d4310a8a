// The operations on values against numbers that Pillow 13 gave for the same picture, and by hand where that is simpler.
#include "images/pixel_ops.h"

#include <type_traits>

#include "sample_image.h"

namespace siamese {
namespace {

template <class... Arguments>
Image changed(Image image, void operation(Image&, Arguments...), std::type_identity_t<Arguments>... arguments) {
  operation(image, arguments...);
  return image;
}

Image row_of(const std::vector<int>& values) {
  Image image(static_cast<int>(values.size()), 1, 1);
  std::copy(values.begin(), values.end(), image.pixels.begin());
  return image;
}

TEST(PixelOps, LumaOfTheCorners) {
  const auto of = [](uint8_t r, uint8_t g, uint8_t b) {
    const uint8_t rgb[] = {r, g, b};
    return luma(rgb);
  };
  EXPECT_EQ(of(0, 0, 0), 0);
  EXPECT_EQ(of(255, 255, 255), 255);
  EXPECT_EQ(of(255, 0, 0), 76);
  EXPECT_EQ(of(0, 255, 0), 150);
  EXPECT_EQ(of(0, 0, 255), 29);
}

TEST(PixelOps, Invert) { expect_pixels(changed(row_of({0, 1, 128, 255}), invert), {255, 254, 127, 0}); }

TEST(PixelOps, PosterizeKeepsUpperBits) {
  const Image row = row_of({0, 1, 15, 16, 100, 200, 255});
  expect_pixels(changed(row, posterize, 8), {0, 1, 15, 16, 100, 200, 255});
  expect_pixels(changed(row, posterize, 4), {0, 0, 0, 16, 96, 192, 240});
  expect_pixels(changed(row, posterize, 1), {0, 0, 0, 0, 0, 128, 128});
  expect_pixels(changed(row, posterize, 0), {0, 0, 0, 0, 0, 0, 0});
}

TEST(PixelOps, SolarizeInvertsFromTheThresholdOn) {
  const Image row = row_of({0, 25, 26, 128, 255});
  expect_pixels(changed(row, solarize, 26), {0, 25, 229, 127, 0});
  expect_pixels(changed(row, solarize, 256), {0, 25, 26, 128, 255});
  expect_pixels(changed(row, solarize, 0), {255, 230, 229, 127, 0});
}

TEST(PixelOps, SolarizeAddBrightensTheDarkHalf) {
  const Image row = row_of({0, 25, 127, 128, 255});
  expect_pixels(changed(row, solarize_add, 99, 128), {99, 124, 226, 128, 255});
  expect_pixels(changed(row, solarize_add, 200, 128), {200, 225, 255, 128, 255});
}

TEST(PixelOps, AutoContrastStretchesEachChannel) {
  Image image = sample_image();
  for (uint8_t& v : image.pixels) v = static_cast<uint8_t>(v / 3 + 20);
  auto_contrast(image);
  expect_pixels(image,
                {0,   85,  173, 36,  127, 212, 73,  166, 255, 113, 205, 16,  150, 248, 55,  58,  150, 238, 107, 202,
                 9,   156, 255, 62,  205, 29,  114, 254, 81,  166, 119, 215, 22,  181, 0,   88,  239, 65,  150, 39,
                 127, 215, 98,  192, 0,   181, 0,   88,  251, 75,  163, 61,  153, 238, 132, 228, 35,  205, 26,  114});
  expect_pixels(changed(row_of({77, 77, 77}), auto_contrast), {77, 77, 77});
}

TEST(PixelOps, EqualizeFollowsTheHistogram) {
  Image image(40, 20, 1);
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 40; ++x) *image.at(x, y) = static_cast<uint8_t>((x * x + 3 * y) % 97);
  const Image before = image;
  equalize(image);
  const int pairs[][2] = {{0, 0}, {1, 3}, {2, 6}, {10, 29}, {30, 86}, {50, 145}, {70, 201}, {90, 250}, {95, 255}};
  for (const auto& [from, to] : pairs)
    for (size_t i = 0; i < image.pixels.size(); ++i)
      EXPECT_TRUE(before.pixels[i] != from || image.pixels[i] == to) << "value " << from;
}

TEST(PixelOps, EqualizeLeavesFewPixelsAndPlainPicturesAlone) {
  const Image few = sample_image(), plain(30, 30, 3, 77);
  EXPECT_EQ(changed(few, equalize), few);
  EXPECT_EQ(changed(plain, equalize), plain);
}

// 509 pixels below the greatest value make a step of 1, and the table would go up to 509.
TEST(PixelOps, EqualizeClips) {
  std::vector<int> values(512, 5), expected(512, 0);
  std::fill(values.begin() + 509, values.end(), 9);
  std::fill(expected.begin() + 509, expected.end(), 255);
  expect_pixels(changed(row_of(values), equalize), expected);
}

TEST(PixelOps, Color) {
  expect_pixels(changed(sample_image(), color, 0.19),
                {55,  70,  86,  92,  107, 123, 129, 144, 160, 141, 157, 124, 178, 194, 161, 114, 129, 145, 137, 153,
                 120, 185, 201, 168, 112, 79,  95,  160, 127, 143, 148, 164, 131, 86,  53,  69,  145, 112, 128, 94,
                 109, 125, 128, 144, 111, 86,  53,  69,  156, 123, 139, 116, 131, 147, 161, 177, 144, 110, 77,  93});
  expect_pixels(changed(sample_image(), color, 1.81),
                {0,   95,  245, 0,   132, 255, 18,  169, 255, 80,  230, 0,   117, 255, 0,   3,   154, 255, 76,  226,
                 0,   124, 255, 0,   255, 0,   130, 255, 28,  178, 87,  237, 0,   255, 0,   104, 255, 13,  163, 0,
                 134, 255, 67,  217, 0,   255, 0,   104, 255, 24,  174, 5,   156, 255, 100, 250, 0,   255, 0,   128});
}

TEST(PixelOps, Contrast) {
  expect_pixels(changed(sample_image(), contrast, 0.19),
                {102, 117, 133, 109, 124, 140, 116, 131, 147, 123, 138, 106, 130, 145, 113, 113, 129, 144, 122, 138,
                 105, 131, 147, 114, 140, 107, 123, 149, 116, 132, 124, 140, 107, 135, 102, 118, 146, 114, 129, 109,
                 125, 141, 120, 136, 103, 135, 102, 118, 148, 116, 131, 113, 129, 145, 126, 142, 109, 140, 107, 123});
  expect_pixels(changed(sample_image(), contrast, 1.81),
                {0,   48,  198, 0,   115, 255, 31,  182, 255, 98,  249, 0,   165, 255, 2,   4,   154, 255, 91,  241,
                 0,   178, 255, 15,  255, 0,   102, 255, 39,  189, 111, 255, 0,   218, 0,   55,  255, 11,  162, 0,
                 118, 255, 75,  225, 0,   218, 0,   55,  255, 31,  182, 8,   158, 255, 135, 255, 0,   255, 0,   98});
}

TEST(PixelOps, Brightness) {
  expect_pixels(changed(sample_image(), brightness, 0.19),
                {0,  15, 31, 7,  22, 38, 14, 29, 45, 21, 36, 3,  28, 43, 11, 11, 26, 42, 20, 36,
                 3,  29, 45, 12, 38, 5,  21, 47, 14, 30, 22, 38, 5,  33, 0,  16, 44, 11, 27, 7,
                 23, 38, 18, 34, 1,  33, 0,  16, 46, 14, 29, 11, 27, 43, 24, 40, 7,  38, 5,  21});
  expect_pixels(changed(sample_image(), brightness, 1.81),
                {0,   150, 255, 66,  217, 255, 133, 255, 255, 200, 255, 38,  255, 255, 104, 106, 255, 255, 193, 255,
                 30,  255, 255, 117, 255, 54,  204, 255, 141, 255, 213, 255, 50,  255, 7,   157, 255, 114, 255, 70,
                 220, 255, 177, 255, 14,  255, 7,   157, 255, 133, 255, 110, 255, 255, 237, 255, 74,  255, 50,  200});
}

TEST(PixelOps, SharpnessKeepsTheBorder) {
  expect_pixels(changed(sample_image(), sharpness, 0.19),
                {0,   83,  166, 37,  120, 203, 74,  157, 240, 111, 194, 21,  148, 231, 58,  59,  142, 225, 107, 158,
                 80,  138, 174, 96,  171, 93,  113, 251, 78,  161, 118, 201, 28,  160, 67,  103, 188, 94,  129, 102,
                 122, 157, 98,  181, 8,   177, 4,   87,  247, 74,  157, 61,  144, 227, 131, 214, 41,  201, 28,  111});
  expect_pixels(changed(sample_image(), sharpness, 1.81),
                {0,   83,  166, 37,  120, 203, 74,  157, 240, 111, 194, 21,  148, 231, 58,  59,  142, 225, 107, 221,
                 0,   171, 255, 33,  234, 0,   113, 251, 78,  161, 118, 201, 28,  193, 0,   70,  255, 31,  162, 0,
                 122, 252, 98,  181, 8,   177, 4,   87,  247, 74,  157, 61,  144, 227, 131, 214, 41,  201, 28,  111});
}

TEST(PixelOps, GreyPictures) {
  const Image grey = sample_image(5, 4, 1);
  expect_pixels(changed(grey, contrast, 0.19),
                {106, 113, 120, 128, 135, 118, 127, 136, 145, 154, 129, 140, 151, 114, 125, 140, 153, 118, 131, 145});
  expect_pixels(changed(grey, sharpness, 1.81),
                {0, 37, 74, 111, 148, 59, 107, 171, 234, 251, 118, 193, 255, 0, 98, 177, 247, 61, 131, 201});
  EXPECT_EQ(changed(grey, color, 0.19), grey);
}

TEST(PixelOps, FactorOneChangesNothing) {
  const Image image = sample_image(17, 13);
  for (const auto enhancer : {color, contrast, brightness, sharpness}) EXPECT_EQ(changed(image, enhancer, 1.0), image);
}

TEST(PixelOps, TinyPictures) {
  for (const auto operation : {auto_contrast, equalize, invert}) EXPECT_EQ(changed(Image(1, 1), operation).width, 1);
  for (const auto enhancer : {color, contrast, brightness, sharpness}) {
    EXPECT_EQ(changed(Image(2, 1, 3, 9), enhancer, 0.5).height, 1);
    EXPECT_EQ(changed(Image(), enhancer, 0.5).width, 0);
  }
}

}  // namespace
}  // namespace siamese
