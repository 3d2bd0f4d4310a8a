// PNG by libpng. Errors jump out of the library into `guarded`, as in jpeg.cpp.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "images/formats.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

struct Errors {
  std::jmp_buf jump;
  char message[200];
};

[[noreturn]] void stop(png_structp png, png_const_charp message) {
  auto& errors = *static_cast<Errors*>(png_get_error_ptr(png));
  std::snprintf(errors.message, sizeof errors.message, "%s", message);
  std::longjmp(errors.jump, 1);
}

/// Warnings of libpng concern what does not change the picture.
void on_warning(png_structp, png_const_charp) {}

struct Decoder {
  const std::string& name;
  std::span<const uint8_t> rest;
  Errors errors{};
  png_structp png = nullptr;
  png_infop info = nullptr;

  Decoder(std::span<const uint8_t> bytes, const std::string& n) : name(n), rest(bytes) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  template <class Calls>
  void run(Calls calls) {
    if (!guarded(errors, calls)) fail("{}: is not a usable PNG: {}", name, printable(errors.message, 200));
  }
};

void take_bytes(png_structp png, png_bytep out, size_t count) {
  auto& rest = static_cast<Decoder*>(png_get_io_ptr(png))->rest;
  if (count > rest.size()) png_error(png, "the file ends early");
  std::memcpy(out, rest.data(), count);
  rest = rest.subspan(count);
}

void read_header(Decoder& file) {
  file.run([&] {
    file.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &file.errors, stop, on_warning);
    if (file.png != nullptr) file.info = png_create_info_struct(file.png);
  });
  if (file.info == nullptr) throw std::bad_alloc();
  file.run([&] {
    png_set_read_fn(file.png, &file, take_bytes);
    png_set_user_limits(file.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size bounds them together
    // Texts, colour profiles and the like are not even unpacked: only palette, transparency and pixels matter.
    png_set_keep_unknown_chunks(file.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(file.png, file.info);
  });
}

/// Deflate packs at most 1032 : 1. What cannot be whole is refused before memory is taken for it.
void check_length(const Decoder& file, size_t bytes) {
  const uint64_t width = png_get_image_width(file.png, file.info), height = png_get_image_height(file.png, file.info);
  const uint64_t bits = uint64_t{png_get_bit_depth(file.png, file.info)} * png_get_channels(file.png, file.info);
  if (width * height / 8 * bits <= uint64_t{1032} * bytes) return;
  fail("{}: is not a usable PNG: {} x {} pixels cannot be in {} bytes", file.name, width, height, bytes);
}

/// Asks for 8 bits in red, green and blue, and transparency where there is any. The number of channels.
int ask_for_rgb(Decoder& file) {
  int channels = 0;
  file.run([&] {
    png_set_expand(file.png);
    png_set_scale_16(file.png);
    png_set_gray_to_rgb(file.png);
    png_set_interlace_handling(file.png);
    png_read_update_info(file.png, file.info);
    channels = png_get_channels(file.png, file.info);
    const bool fits = png_get_bit_depth(file.png, file.info) == 8 && (channels == 3 || channels == 4);
    if (!fits) png_error(file.png, "unknown layout of pixels");
  });
  return channels;
}

void read_rows(Decoder& file, uint8_t* pixels, size_t row, size_t rows) {
  file.run([&] {
    const int passes = png_set_interlace_handling(file.png);
    for (int pass = 0; pass < passes; ++pass) {
      for (size_t y = 0; y < rows; ++y) png_read_row(file.png, pixels + y * row, nullptr);
    }
    png_read_end(file.png, nullptr);
  });
}

void append_bytes(png_structp png, png_bytep bytes, size_t count) {
  bool kept = true;
  try {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), count);
  } catch (const std::bad_alloc&) {
    kept = false;  // the jump must not leave the handler
  }
  if (!kept) png_error(png, "out of memory");
}

struct Encoder {
  Errors errors{};
  std::string content;
  png_structp png = nullptr;
  png_infop info = nullptr;

  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { png_destroy_write_struct(&png, &info); }
};

}  // namespace

Image decode_png(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options) {
  Decoder file(bytes, name);
  read_header(file);
  const uint32_t width = png_get_image_width(file.png, file.info), height = png_get_image_height(file.png, file.info);
  check_size(width, height, name, options);
  check_length(file, bytes.size());
  const size_t channels = static_cast<size_t>(ask_for_rgb(file));
  Image image(static_cast<int>(width), static_cast<int>(height));
  if (channels == 3) {
    read_rows(file, image.pixels.data(), size_t{3} * width, height);
    return image;
  }
  // Interlaced files fill in the transparency of a row in several passes, so it has to be kept for all rows.
  std::vector<uint8_t> with_alpha(size_t{4} * width * height);
  read_rows(file, with_alpha.data(), size_t{4} * width, height);
  for (size_t i = 0; i < size_t{width} * height; ++i) {
    const int alpha = with_alpha[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      image.pixels[3 * i + c] = static_cast<uint8_t>((with_alpha[4 * i + c] * alpha + 127) / 255);
    }
  }
  return image;
}

std::string encode_png(const Image& image, const std::string& name) {
  Encoder file;
  const bool done = guarded(file.errors, [&] {
    file.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &file.errors, stop, on_warning);
    if (file.png == nullptr) return;
    file.info = png_create_info_struct(file.png);
    if (file.info == nullptr) return;
    png_set_write_fn(file.png, &file.content, append_bytes, [](png_structp) {});
    png_set_user_limits(file.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(file.png, file.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
                 image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(file.png, file.info);
    for (int y = 0; y < image.height; ++y) png_write_row(file.png, image.at(0, y));
    png_write_end(file.png, nullptr);
  });
  if (!done) fail("{}: cannot write as PNG: {}", name, printable(file.errors.message, 200));
  if (file.info == nullptr) throw std::bad_alloc();
  return std::move(file.content);
}

}  // namespace siamese
