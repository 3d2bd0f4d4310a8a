#include "photo_files.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "images/chances.h"
#include "images/formats.h"
#include "images/resize.h"
#include "images/sets.h"
#include "in_parallel.h"
#include "util/error.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSeed = 1;
// Deviations from the drawing by octave, so that a file at quality 90 takes about 50 kB, as photographs of this size
// do. Plain shapes take 12: a decoder spends most of its time on what they lack.
constexpr double kStrength = 0.14, kFinest = 0.05;

/// Random values `across` pixels wide, enlarged smoothly to a photograph's size.
Image clouds(int across, Chances& chances) {
  Image small(across, std::max(1, across * kPhotoHeight / kPhotoWidth));
  for (uint8_t& v : small.pixels) v = static_cast<uint8_t>(chances.below(256));
  return resize(small, kPhotoWidth, kPhotoHeight, Filter::bicubic);
}

/// Equally strong at every size of detail, as photographs are (their power falls with the square of the frequency), but
/// weaker in single pixels: cameras blur.
void add_texture(Image& image, Chances& chances) {
  std::vector<double> sum(image.pixels.size());
  for (int across = 8; across <= kPhotoWidth; across *= 2) {
    const double strength = 2 * across > kPhotoWidth ? kFinest : kStrength;
    const Image octave = clouds(across, chances);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += strength * (octave.pixels[i] - 127.5);
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>(std::clamp(image.pixels[i] + sum[i] + 0.5, 0.0, 255.0));
  }
}

/// A square drawing cut to the format of a photograph.
Image draw_photo(const ImageSet& shapes, int64_t index) {
  const Image square = shapes.load(index);
  Image photo(kPhotoWidth, kPhotoHeight);
  const int top = (kPhotoWidth - kPhotoHeight) / 2;
  std::copy_n(square.at(0, top), photo.pixels.size(), photo.pixels.begin());
  Chances chances(RandomKey(kSeed, static_cast<uint64_t>(index), kTestSite));
  add_texture(photo, chances);
  return photo;
}

}  // namespace

std::vector<std::string> write_photo_files(const std::string& folder, int64_t count, int64_t threads) {
  const std::shared_ptr<const ImageSet> shapes = make_shapes_sets(count, kPhotoWidth, kSeed).train;
  for (const std::string& name : shapes->class_names()) fs::create_directories(fs::path(folder) / name);
  std::vector<std::string> paths;
  for (int64_t i = 0; i < count; ++i) {
    const std::string& name = shapes->class_names()[static_cast<size_t>(shapes->label(i))];
    paths.push_back((fs::path(folder) / name / fmt::format("{:06}.jpg", i)).string());
  }
  in_parallel(count, threads, [&](int64_t i) {
    const std::string& path = paths[static_cast<size_t>(i)];
    if (fs::exists(path)) return;
    const std::string content = encode_jpeg(draw_photo(*shapes, i), path, kPhotoQuality);
    // Not write_jpeg: its files survive a power cut, at the price of two fsyncs each.
    std::ofstream(path, std::ios::binary) << content;
    if (fs::file_size(path) != content.size()) fail("{}: cannot write {} bytes", path, content.size());
  });
  return paths;
}

TemporaryFolder::TemporaryFolder() {
  path_ = (fs::temp_directory_path() / "siamese_photos_XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) fail("{}: cannot make a folder", path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace siamese
