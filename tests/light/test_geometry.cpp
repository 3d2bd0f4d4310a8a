// The warps against numbers that Pillow 13 gave for the same picture.
#include "images/geometry.h"

#include "images/pixel_ops.h"
#include "sample_image.h"
#include "util/error.h"

namespace siamese {
namespace {

constexpr Fill kFill = {124, 116, 104};

// Pillow cuts off as well, after double arithmetic: where a value is whole in theory, one of the two may fall short.
constexpr int kSlack = 1;

TEST(Geometry, RotateBilinear) {
  expect_pixels(rotate(sample_image(), 27, Filter::bilinear, kFill),
                {124, 116, 104, 66,  149, 232, 113, 168, 91,  192, 117, 102, 240, 85,  150, 25,  108, 175, 93,  176,
                 105, 167, 184, 80,  125, 83,  150, 103, 177, 13,  61,  144, 217, 135, 107, 60,  218, 59,  128, 106,
                 137, 152, 155, 117, 82,  113, 196, 42,  167, 85,  77,  188, 84,  167, 75,  158, 187, 124, 116, 104},
                kSlack);
}

TEST(Geometry, RotateBicubic) {
  expect_pixels(rotate(sample_image(), 27, Filter::bicubic, kFill),
                {124, 116, 104, 51,  129, 255, 112, 164, 86,  224, 87, 104, 252, 83,  159, 20,  105, 172, 83,  225,
                 77,  176, 190, 80,  115, 45,  189, 100, 182, 8,   62, 146, 221, 127, 106, 27,  253, 41,  116, 81,
                 148, 188, 155, 127, 64,  102, 235, 33,  180, 71,  58, 199, 78,  190, 26,  187, 197, 124, 116, 104},
                kSlack);
}

TEST(Geometry, RotateGrey) {
  const Image grey = sample_image(5, 4, 1);
  expect_pixels(rotate(grey, -12.5, Filter::bilinear, kFill),
                {27, 42, 64, 98, 134, 85, 118, 150, 178, 200, 152, 192, 214, 81, 166, 203, 182, 86, 128, 152}, kSlack);
  expect_pixels(rotate(grey, -12.5, Filter::bicubic, kFill),
                {14, 33, 61, 84, 123, 83, 120, 148, 191, 224, 162, 210, 220, 59, 166, 231, 182, 55, 119, 144}, kSlack);
}

TEST(Geometry, ShearX) {
  expect_pixels(shear_x(sample_image(), 0.27, Filter::bilinear, kFill),
                {4,   87,  170, 41,  124, 207, 78,  161, 210, 115, 198, 25,  148, 231, 58,  78,  161, 140, 126, 209,
                 36,  174, 153, 84,  222, 49,  132, 251, 78,  161, 157, 68,  67,  216, 43,  126, 103, 102, 185, 78,
                 161, 72,  124, 116, 104, 243, 70,  153, 71,  140, 223, 127, 210, 51,  197, 38,  107, 124, 116, 104},
                kSlack);
  expect_pixels(shear_x(sample_image(), 0.27, Filter::bicubic, kFill),
                {4,   87,  170, 45,  128, 215, 82,  165, 213, 119, 202, 3,   151, 234, 61,  73,  156, 136, 128, 236,
                 1,   176, 155, 86,  229, 19,  139, 255, 84,  167, 149, 59,  59,  250, 21,  122, 98,  98,  219, 64,
                 166, 76,  124, 116, 104, 252, 66,  149, 67,  136, 232, 123, 219, 47,  197, 38,  106, 124, 116, 104},
                kSlack);
}

TEST(Geometry, ShearY) {
  expect_pixels(shear_y(sample_image(), -0.27, Filter::bilinear, kFill),
                {0,  83,  166, 37,  120, 203, 124, 116, 104, 124, 116, 104, 124, 116, 104, 51,  134, 217, 78,  161,
                 92, 100, 183, 183, 116, 184, 26,  148, 231, 58,  110, 193, 54,  148, 79,  58,  181, 181, 91,  193,
                 35, 118, 228, 110, 138, 169, 30,  79,  218, 45,  128, 179, 89,  172, 44,  127, 195, 130, 158, 40},
                kSlack);
  expect_pixels(shear_y(sample_image(), -0.27, Filter::bicubic, kFill),
                {0,  77,  160, 26,  109, 229, 124, 116, 104, 124, 116, 104, 124, 116, 104, 45,  128, 236, 68,  188,
                 82, 94,  195, 177, 116, 184, 25,  134, 251, 44,  105, 213, 49,  145, 76,  30,  205, 187, 59,  198,
                 26, 123, 249, 97,  159, 169, 31,  75,  225, 27,  135, 191, 63,  184, 36,  131, 200, 120, 173, 30},
                kSlack);
}

TEST(Geometry, TranslateX) {
  expect_pixels(translate_x(sample_image(), 0.3, Filter::bilinear, kFill),
                {55,  138, 221, 92,  175, 130, 129, 212, 39,  124, 116, 104, 124, 116, 104, 131, 214, 41,  179, 134,
                 89,  227, 54,  137, 124, 116, 104, 124, 116, 104, 206, 33,  116, 137, 92,  175, 68,  151, 106, 124,
                 116, 104, 124, 116, 104, 154, 109, 192, 96,  179, 134, 166, 121, 76,  124, 116, 104, 124, 116, 104},
                kSlack);
  expect_pixels(translate_x(sample_image(), 0.3, Filter::bicubic, kFill),
                {55,  138, 253, 92,  175, 130, 134, 217, 12,  124, 116, 104, 124, 116, 104, 131, 246, 9,   179, 134,
                 89,  233, 28,  143, 124, 116, 104, 124, 116, 104, 238, 1,   116, 137, 92,  207, 43,  158, 113, 124,
                 116, 104, 124, 116, 104, 154, 109, 224, 64,  211, 134, 174, 129, 52,  124, 116, 104, 124, 116, 104},
                kSlack);
}

TEST(Geometry, TranslateY) {
  expect_pixels(translate_y(sample_image(), -0.3125, Filter::bilinear, kFill),
                {124, 116, 104, 124, 116, 104, 124, 116, 104, 124, 116, 104, 124, 116, 104, 0,  83,  166, 37,  120,
                 203, 74,  157, 240, 111, 194, 21,  148, 231, 58,  44,  127, 210, 89,  172, 63, 134, 217, 108, 180,
                 71,  90,  225, 116, 135, 103, 186, 77,  159, 50,  69,  215, 106, 125, 80,  99, 182, 136, 155, 46},
                kSlack);
  expect_pixels(translate_y(sample_image(), -0.3125, Filter::bicubic, kFill),
                {124, 116, 104, 124, 116, 104, 124, 116, 104, 124, 116, 104, 124, 116, 104, 0,  74,  157, 27,  110,
                 229, 62,  145, 255, 98,  217, 8,   133, 252, 43,  35,  118, 237, 79,  198, 53, 123, 242, 97,  203,
                 58,  77,  246, 101, 156, 97,  216, 71,  152, 43,  50,  244, 99,  106, 71,  78, 209, 126, 169, 36},
                kSlack);
}

TEST(Geometry, NothingMovedIsNothingChanged) {
  const Image image = sample_image(23, 11);
  for (const auto move : {rotate, shear_x, shear_y, translate_x, translate_y})
    for (const Filter filter : {Filter::bilinear, Filter::bicubic}) EXPECT_EQ(move(image, 0, filter, kFill), image);
}

TEST(Geometry, PlainAreasStayPlain) {
  const Image plain(40, 30, 3, 77);
  for (const auto move : {rotate, shear_x, shear_y, translate_x, translate_y})
    for (const Filter filter : {Filter::bilinear, Filter::bicubic})
      EXPECT_EQ(move(plain, 0.2345, filter, {77, 77, 77}), plain);
}

TEST(Geometry, WholeShiftsCopyPixels) {
  const Image image = sample_image(8, 4);
  const Image moved = translate_x(image, 0.25, Filter::bicubic, kFill);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 8; ++x)
      for (int c = 0; c < 3; ++c) EXPECT_EQ(moved.at(x, y)[c], x < 6 ? image.at(x + 2, y)[c] : kFill[c]);
}

TEST(Geometry, QuarterTurnsAreCounterClockwise) {
  const Image image = sample_image(6, 6), turned = rotate(image, 90, Filter::bicubic, kFill);
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 6; ++x)
      for (int c = 0; c < 3; ++c) EXPECT_EQ(turned.at(x, y)[c], image.at(5 - y, x)[c]) << x << ' ' << y;
}

TEST(Geometry, AllMayComeFromOutside) {
  const Image gone = translate_y(sample_image(), 1.0, Filter::bilinear, kFill);
  for (size_t i = 0; i < gone.pixels.size(); ++i) EXPECT_EQ(gone.pixels[i], kFill[i % 3]);
}

TEST(Geometry, TinyPicturesAndOtherChannels) {
  EXPECT_EQ(rotate(Image(1, 1, 3, 5), 30, Filter::bicubic, kFill).at(0, 0)[1], 5);
  EXPECT_EQ(rotate(Image(), 30, Filter::bicubic, kFill).width, 0);
  EXPECT_THROW(rotate(Image(4, 4, 2), 30, Filter::bicubic, kFill), Error);
}

}  // namespace
}  // namespace siamese
