// Decoding only a part of a JPEG: the pixels inside are those of the whole picture, and damage outside is still found.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "image_files.h"
#include "image_loading.h"
#include "image_set_files.h"
#include "images/transform.h"

namespace siamese {
namespace {

using namespace image_files;

Image decode(const std::string& file, const DecodeOptions& options = {}) {
  return decode_image(bytes_of(file), "FILE", options);
}

Image decode_part(const std::string& file, const Part& part, int least_side = 0) {
  DecodeOptions options;
  options.least_side = least_side;
  options.needed = [&](int, int) { return part; };
  return decode(file, options);
}

bool same_inside(const Image& a, const Image& b, const Part& part) {
  if (a.width != b.width || a.height != b.height) return false;
  for (int y = part.y; y < part.y + part.height; ++y) {
    if (std::memcmp(a.at(part.x, y), b.at(part.x, y), size_t{3} * part.width) != 0) return false;
  }
  return true;
}

Part random_part(int width, int height, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int x = below(width), y = below(height);
  return {x, y, 1 + below(width - x), 1 + below(height - y)};
}

std::vector<JpegKind> kinds() {
  std::vector<JpegKind> all;
  for (const bool progressive : {false, true}) {
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}}) {
      all.push_back({.progressive = progressive, .across = across, .down = down});
    }
    all.push_back({.given = JCS_RGB, .stored = JCS_RGB, .progressive = progressive, .adobe = true});
  }
  all.push_back({.scans_apart = true});
  all.push_back({.restarts = 5});
  return all;
}

TEST(CodecPart, IsThatPartOfTheWhole) {
  std::mt19937 random(1);
  for (const JpegKind& kind : kinds()) {
    for (const auto& [width, height] : {std::pair{211, 157}, {64, 96}, {17, 3}, {1, 40}, {5, 1}}) {
      const std::string file = make_jpeg(noise(width, height), kind);
      for (const int least_side : {0, 70, 30, 10}) {
        const Image whole = decode(file, {.least_side = least_side});
        for (int round = 0; round < 15; ++round) {
          const Part part = random_part(whole.width, whole.height, random);
          ASSERT_TRUE(same_inside(decode_part(file, part, least_side), whole, part))
              << "progressive " << kind.progressive << ", " << kind.across << " x " << kind.down << ", of "
              << whole.width << " x " << whole.height << ": " << part.x << ", " << part.y << ", " << part.width << " x "
              << part.height;
        }
      }
    }
  }
}

TEST(CodecPart, OtherKindsAreDecodedWhole) {
  const std::string grey = make_jpeg(noise(50, 40, 1), {JCS_GRAYSCALE, JCS_GRAYSCALE});
  const Part part{20, 10, 5, 7};
  EXPECT_TRUE(same_inside(decode_part(grey, part), decode(grey), part));
  const std::string inks = make_jpeg(noise(50, 40, 4), {JCS_CMYK, JCS_YCCK, false, true});
  EXPECT_EQ(decode_part(inks, part), decode(inks));
  const std::string png = make_png(50, 40, {}, [](int x, int y, int c) { return (x * 7 + y * 31 + c) & 255; });
  EXPECT_EQ(decode_part(png, part), decode(png));
}

TEST(CodecPart, IsHeldInsideThePicture) {
  const std::string file = make_jpeg(noise(50, 40), {});
  const Image whole = decode(file);
  EXPECT_EQ(decode_part(file, {-5, -5, 100, 100}), whole);
  EXPECT_EQ(decode_part(file, {0, 0, 50, 40}), whole);
  EXPECT_EQ(decode_part(file, {60, 70, 0, -3}).width, 50);
}

// As strict as decoding all of it: a file does not become usable by a lucky choice of the part.
TEST(CodecPart, CutOffBelowIsAnError) {
  for (const bool progressive : {false, true}) {
    const std::string file = make_jpeg(noise(40, 64), {.progressive = progressive});
    for (size_t length = 0; length < file.size(); length += 7) {
      ASSERT_THROW(decode_part(file.substr(0, length), {8, 0, 4, 4}), Error) << length << " of " << file.size();
    }
    EXPECT_NO_THROW(decode_part(file, {8, 0, 4, 4}));
    EXPECT_THROW(decode_part(file.substr(0, file.size() - 2), {8, 0, 4, 4}), Error);
  }
}

TEST(CodecPart, DamageIsFoundAsInTheWhole) {
  const std::string files[] = {make_jpeg(noise(40, 48), {}), make_jpeg(noise(40, 48), {.progressive = true})};
  std::mt19937 random(2);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string file = files[round % 2];
    for (int i = 0; i < 1 + round % 3; ++i) file[random() % file.size()] = static_cast<char>(random());
    const Part part = random_part(40, 48, random);
    const auto usable = [&](const Needed& needed) {
      DecodeOptions options;
      options.most_pixels = 1 << 20;
      options.needed = needed;
      return error_of([&] { decode(file, options); }).empty();
    };
    const bool whole = usable(nullptr);
    EXPECT_EQ(usable([&](int, int) { return part; }), whole) << round;
    refused += whole ? 0 : 1;
  }
  EXPECT_GT(refused, 300);
}

// Whatever is drawn, resizing looks at nothing outside.
TEST(CodecPart, TrainingLooksAtNothingElse) {
  AugmentConfig config;
  config.crop = "resized";
  config.interpolation = "random";
  for (const auto& [width, height] : {std::pair{90, 60}, {31, 200}, {200, 31}, {7, 5}}) {
    const Image image = noise(width, height);
    for (uint64_t i = 0; i < 200; ++i) {
      const RandomKey key(1, i, kTestSite);
      const Transform transform(config, 24, 3);
      const Part part = transform.needed(width, height, key);
      Image blackened(width, height);
      for (int y = part.y; y < part.y + part.height; ++y) {
        std::memcpy(blackened.at(part.x, y), image.at(part.x, y), size_t{3} * part.width);
      }
      std::vector<float> wanted(3 * 24 * 24), found(wanted.size());
      transform.train(image, key, wanted);
      transform.train(blackened, key, found);
      ASSERT_EQ(found, wanted) << i;
    }
  }
  EXPECT_EQ(Transform({}, 24, 3).needed(30, 20, RandomKey(1, 0, kTestSite)), (Part{0, 0, 30, 20}));
}

// A cache holds whole pictures, the others are decoded in part; repeats need several parts of one.
TEST(CodecPart, BatchesAreThoseOfWholePictures) {
  const ImageFiles files;
  for (int i = 0; i < 8; ++i) files.write(fmt::format("{}/{}.jpg", i % 4, i), make_jpeg(noise(90 + i, 70), {}));
  DataConfig data;
  Loading run = augmented();
  run.options.size = 24;
  const auto batches = [&](const std::string& cache, int64_t workers) {
    data.cache = cache;
    data.workers = workers;
    ImageLoader loader(make_folder_set(files.root()), data, run.augment, run.options);
    std::vector<ImageBatch> all;
    for (int64_t step = 0; step < run.options.end_step; ++step) all.push_back(loader.next());
    return all;
  };
  const std::vector<ImageBatch> wanted = batches("on", 2);
  for (const int64_t workers : {1, 3}) {
    const std::vector<ImageBatch> found = batches("off", workers);
    for (size_t i = 0; i < wanted.size(); ++i) expect_equal(found[i], wanted[i]);
  }
}

}  // namespace
}  // namespace siamese
