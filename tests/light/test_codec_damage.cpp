// Files that are not what they should be: cut off, damaged, of another kind, lying about their size.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <random>

#include "data_files.h"
#include "image_files.h"
#include "images/codec.h"
#include "util/files.h"

namespace siamese {
namespace {

using namespace image_files;
namespace fs = std::filesystem;

Image decode(const std::string& file, const DecodeOptions& options = {}) {
  return decode_image(bytes_of(file), "FILE", options);
}

/// The message must be one line, begin with the file and contain `part`.
void expect_error(const std::string& file, const std::string& part, const DecodeOptions& options = {}) {
  const std::string message = error_of([&] { decode(file, options); });
  EXPECT_TRUE(message.starts_with("FILE: ")) << message;
  EXPECT_NE(message.find(part), std::string::npos) << "wanted: " << part << "\n   got: " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(CodecDamage, JpegOfTwoChannelsIsRefused) {
  expect_error(make_jpeg(Image(8, 8, 2), {JCS_UNKNOWN, JCS_UNKNOWN}), "2 channels");
}

TEST(CodecDamage, CutOffAnywhereIsAnError) {
  const Sample sample = [](int x, int y, int c) { return (x * 7 + y * 31 + c) & 255; };
  const std::string files[] = {
      make_jpeg(noise(24, 20), {}),
      make_jpeg(noise(24, 20), {.progressive = true}),
      make_jpeg(noise(24, 20, 1), {JCS_GRAYSCALE, JCS_GRAYSCALE}),
      make_jpeg(noise(24, 20, 4), {JCS_CMYK, JCS_YCCK, false, true}),
      make_png(24, 20, {}, sample),
      make_png(24, 20, {PNG_COLOR_TYPE_RGB_ALPHA, 8, true}, sample),
  };
  for (const std::string& file : files) {
    EXPECT_NO_THROW(decode(file));
    for (size_t length = 0; length < file.size(); ++length) {
      const std::string part = file.substr(0, length);
      ASSERT_THROW(decode(part), Error) << length << " of " << file.size() << " bytes";
    }
    EXPECT_NO_THROW(decode(file + "rest of a download"));
  }
  expect_error(files[0].substr(0, files[0].size() / 2), "Premature end");
  expect_error(files[4].substr(0, files[4].size() / 2), "ends early");
}

TEST(CodecDamage, DamageNeverCrashes) {
  const Sample sample = [](int x, int y, int c) { return (x * 7 + y * 31 + c) & 255; };
  const std::string files[] = {make_jpeg(noise(24, 20), {.progressive = true}), make_jpeg(noise(24, 20), {}),
                               make_png(24, 20, {PNG_COLOR_TYPE_GRAY_ALPHA, 16, true}, sample)};
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string file = files[round % 3];
    for (int i = 0; i < 1 + round % 4; ++i) file[random() % file.size()] = static_cast<char>(random());
    try {
      const Image image = decode(file, {.most_pixels = 1 << 20});
      EXPECT_EQ(image.pixels.size(), size_t{3} * image.width * image.height);
    } catch (const Error&) {
    }
  }
  std::string crc = files[2];
  crc[crc.size() - 20] ^= 1;  // in the pixels
  expect_error(crc, "is not a usable PNG");
}

TEST(CodecDamage, BytesBeforeAMarkerAreHarmless) {
  std::string file = make_jpeg(smooth(32, 32), {});
  const Image wanted = decode(file);
  file.insert(file.size() - 2, 10, '\0');  // before the end marker, as some cameras have it
  EXPECT_EQ(decode(file), wanted);
}

TEST(CodecDamage, EndlessScansAreRefused) {
  const std::string file = make_jpeg(noise(16, 16), {.scans_apart = true});
  const size_t first = file.find("\xFF\xDA"), second = file.find("\xFF\xDA", first + 2);
  std::string many = file.substr(0, first);
  for (int i = 0; i < 600; ++i) many += file.substr(first, second - first);
  expect_error(many + file.substr(second), "more than 500 scans");
}

TEST(CodecDamage, SizesAreCheckedBeforeMemoryIsTaken) {
  const std::string png = make_png(40, 30, {}, [](int, int, int) { return 1; });
  const std::string jpeg = make_jpeg(smooth(40, 30), {});
  for (const std::string& file : {png, jpeg}) {
    expect_error(file, "40 x 30 pixels; at most 1199", {.most_pixels = 1199});
    EXPECT_EQ(decode(file, {.most_pixels = 1200}).height, 30);
  }
  std::string huge = jpeg;
  const size_t frame = huge.find("\xFF\xC0");
  huge.replace(frame + 5, 4, "\xFF\x00\xFF\x00", 4);
  expect_error(huge, "65280 x 65280");
  huge.replace(frame + 5, 4, "\x3F\x00\x3F\x00", 4);  // accepted as a size, but not with so few bytes
  expect_error(huge, "cannot be in");

  const auto with_size = [&](uint32_t width, uint32_t height) {
    std::string file = png;
    for (int i = 0; i < 4; ++i) {
      file[16 + i] = static_cast<char>(width >> (24 - 8 * i));
      file[20 + i] = static_cast<char>(height >> (24 - 8 * i));
    }
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17);
    for (int i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
    return file;
  };
  expect_error(with_size(0x7FFFFFFF, 0x7FFFFFFF), "2147483647 x 2147483647");
  expect_error(with_size(16384, 16384), "cannot be in");
  expect_error(with_size(0, 5), "is not a usable PNG");
  expect_error(with_size(40, 31), "is not a usable PNG");
}

TEST(CodecDamage, OtherFilesAreNamed) {
  expect_error("", "is empty");
  expect_error("GIF89a.......", "GIF");
  expect_error(std::string("RIFF\0\0\0\0WEBPVP8 ", 16), "WebP");
  expect_error("<svg xmlns=", "text");
  expect_error("once upon a time", "neither JPEG nor PNG (it begins with 6f 6e 63 65)");
  expect_error(std::string(100, '\0'), "00 00 00 00");
  expect_error("\xFF\xD8\xFF", "is not a usable JPEG");
  expect_error("\x89PNG\r\n\x1A\n", "is not a usable PNG");
}

TEST(CodecDamage, FilesThatCannotBeRead) {
  const DataFolder folder;
  const std::string empty = folder.write("empty.jpg", ""), parent = fs::path(empty).parent_path().string();
  EXPECT_EQ(error_of([&] { read_image(empty); }), empty + ": is empty");
  const std::string missing = parent + "/missing.png";
  for (const std::string& path : {missing, parent}) {
    EXPECT_TRUE(error_of([&] { read_image(path); }).starts_with(path + ": cannot ")) << path;
  }
}

TEST(CodecDamage, WhatCannotBeWritten) {
  const DataFolder folder;
  const std::string path = folder.write("picture", "old");
  EXPECT_THROW(write_png(path, Image()), Error);
  EXPECT_THROW(write_png(path, Image(4, 4, 2)), Error);
  Image short_of_pixels(4, 4);
  short_of_pixels.pixels.pop_back();
  EXPECT_THROW(write_jpeg(path, short_of_pixels), Error);
  for (const int quality : {-1, 0, 101}) EXPECT_THROW(write_jpeg(path, Image(4, 4), quality), Error);
  EXPECT_NE(error_of([&] { write_jpeg(path, Image(70000, 1)); }).find("65500"), std::string::npos);
  EXPECT_EQ(read_file(path), "old");
  const std::string nowhere = path + "/below/a.png";
  EXPECT_TRUE(error_of([&] { write_png(nowhere, Image(1, 1)); }).starts_with(nowhere));
}

}  // namespace
}  // namespace siamese
