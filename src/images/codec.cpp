#include "images/codec.h"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include "images/formats.h"
#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 30;

/// Decoders report what is missing, so the first bytes are enough here even if the rest of the signature is cut off.
constexpr std::string_view kJpeg = "\xFF\xD8";
constexpr std::string_view kPng = "\x89PNG";

/// What people put into image folders by mistake, or under a wrong extension.
constexpr std::array<std::pair<std::string_view, const char*>, 8> kOthers = {{
    {"GIF8", "a GIF file"},
    {"BM", "a BMP file"},
    {"RIFF", "a WebP file or another RIFF container"},
    {"II*", "a TIFF file"},
    {"MM", "a TIFF file"},
    {"PK\x03\x04", "a zip archive"},
    {"\x1F\x8B", "gzip data"},
    {"<", "text (XML, SVG or HTML)"},
}};

std::string first_bytes(std::string_view content) {
  std::string hex;
  for (const char c : content.substr(0, 4)) hex += fmt::format("{}{:02x}", hex.empty() ? "" : " ", c & 0xFF);
  return hex;
}

[[noreturn]] void fail_unknown(std::string_view content, const std::string& name) {
  for (const auto& [start, kind] : kOthers) {
    if (content.starts_with(start)) fail("{}: is {}; pictures have to be JPEG or PNG", name, kind);
  }
  fail("{}: is neither JPEG nor PNG (it begins with {})", name, first_bytes(content));
}

/// A path is never cut in a message: the user has to find the file.
std::string shown(const std::string& name) { return printable(name, SIZE_MAX); }

/// What can be written: some pixels, as many as the sizes say.
void check_image(const Image& image, const std::string& name) {
  const bool sizes = image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3);
  if (!sizes || image.pixels.size() / image.channels / image.width != static_cast<size_t>(image.height) ||
      image.pixels.size() % (static_cast<size_t>(image.channels) * image.width) != 0) {
    fail("{}: cannot write a picture of {} x {} with {} channels and {} values", name, image.width, image.height,
         image.channels, image.pixels.size());
  }
}

}  // namespace

void check_size(int64_t width, int64_t height, const std::string& name, const DecodeOptions& options) {
  // Neither format can say more than 2^31, so the product fits.
  if (width < 1 || height < 1) fail("{}: is a picture of {} x {} pixels", name, width, height);
  if (width * height > options.most_pixels) {
    fail("{}: is a picture of {} x {} pixels; at most {} are accepted", name, width, height, options.most_pixels);
  }
}

Image decode_image(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options) {
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string title = shown(name);
  if (content.empty()) fail("{}: is empty", title);
  try {
    if (content.starts_with(kJpeg)) return decode_jpeg(bytes, title, options);
    if (content.starts_with(kPng)) return decode_png(bytes, title, options);
  } catch (const std::bad_alloc&) {
    fail("{}: the picture does not fit in memory", title);
  }
  fail_unknown(content, title);
}

Image read_image(const std::string& path, const DecodeOptions& options) {
  // Read, not mapped: a file that is cut off while a mapping is in use ends the program by SIGBUS.
  const std::string content = read_file(path, kLargestFile);
  return decode_image({reinterpret_cast<const uint8_t*>(content.data()), content.size()}, path, options);
}

void write_png(const std::string& path, const Image& image) {
  check_image(image, shown(path));
  write_file_atomic(path, encode_png(image, shown(path)));
}

void write_jpeg(const std::string& path, const Image& image, int quality) {
  check_image(image, shown(path));
  if (quality < 1 || quality > 100) fail("{}: the quality of a JPEG is 1 to 100, not {}", shown(path), quality);
  write_file_atomic(path, encode_jpeg(image, shown(path), quality));
}

Image grid_of(std::span<const Image> images, int columns, int gap) {
  if (images.empty()) fail("a grid needs at least one picture");
  if (columns < 1 || gap < 0) fail("a grid cannot have {} columns and a gap of {} pixels", columns, gap);
  const Image& first = images.front();
  for (const Image& image : images) {
    check_image(image, "grid");
    if (image.width == first.width && image.height == first.height && image.channels == first.channels) continue;
    fail("a grid needs pictures of one size: one is {} x {} with {} channels, another {} x {} with {}", first.width,
         first.height, first.channels, image.width, image.height, image.channels);
  }
  const int64_t count = static_cast<int64_t>(images.size());
  const int64_t across = std::min<int64_t>(columns, count), down = (count + across - 1) / across;
  const int64_t step_x = int64_t{first.width} + gap, step_y = int64_t{first.height} + gap;
  if (across > INT32_MAX / step_x || down > INT32_MAX / step_y) fail("a grid of {} pictures is too large", count);
  Image grid(static_cast<int>(across * step_x - gap), static_cast<int>(down * step_y - gap), first.channels, 255);
  const size_t row = static_cast<size_t>(first.width) * first.channels;
  for (int64_t i = 0; i < count; ++i) {
    const int left = static_cast<int>(i % across * step_x), top = static_cast<int>(i / across * step_y);
    for (int y = 0; y < first.height; ++y) std::copy_n(images[i].at(0, y), row, grid.at(left, top + y));
  }
  return grid;
}

}  // namespace siamese
