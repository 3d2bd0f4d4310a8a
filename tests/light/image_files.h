// JPEG and PNG files of every kind, made in memory by the libraries themselves, for the tests of the decoders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

// jpeglib.h needs the headers above and does not include them.
#include <jpeglib.h>
#include <png.h>

#include "images/image.h"

namespace siamese::image_files {

/// Without structure: what a decoder or a filter gets wrong shows.
inline Image noise(int width, int height, int channels = 3) {
  Image image(width, height, channels);
  uint32_t state = 12345;
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return image;
}

/// Without edges: survives JPEG nearly unchanged.
inline Image smooth(int width, int height, int channels = 3) {
  Image image(width, height, channels);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        image.at(x, y)[c] = static_cast<uint8_t>(40 + 60 * c + 50 * x / width + 40 * y / height);
      }
    }
  }
  return image;
}

struct JpegKind {
  J_COLOR_SPACE given = JCS_RGB, stored = JCS_YCbCr;
  bool progressive = false, adobe = false, scans_apart = false;
  int across = 0, down = 0;  // pixels of brightness for one of colour; 0: as libjpeg has it, 2 × 2
  unsigned restarts = 0;     // blocks between restart markers; 0: none
};

/// `image.pixels` are values of `kind.given`, as many a pixel as image.channels.
inline std::string make_jpeg(const Image& image, const JpegKind& kind) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = kind.given;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.stored);
  jpeg_set_quality(&info, 95, TRUE);
  info.write_Adobe_marker = kind.adobe;
  if (kind.across > 0) info.comp_info[0].h_samp_factor = kind.across, info.comp_info[0].v_samp_factor = kind.down;
  info.restart_interval = kind.restarts;
  std::vector<jpeg_scan_info> scans(info.num_components);
  for (int c = 0; c < info.num_components; ++c) scans[c] = {1, {c, 0, 0, 0}, 0, 63, 0, 0};
  if (kind.scans_apart) info.scan_info = scans.data(), info.num_scans = info.num_components;
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(image.at(0, static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<char*>(data), size);
  jpeg_destroy_compress(&info);
  std::free(data);
  return file;
}

struct PngKind {
  int type = PNG_COLOR_TYPE_RGB, depth = 8;
  bool interlaced = false, transparent = false;  // transparent: a tRNS chunk

  int channels() const { return type == PNG_COLOR_TYPE_PALETTE ? 1 : 1 + (type & 2) + (type & 4) / 4; }
};

/// Entry i of the palette in all files made here, and its alpha where the kind is transparent.
inline png_color palette_color(int i) {
  return {static_cast<png_byte>(7 * i + 1), static_cast<png_byte>(255 - 13 * i), static_cast<png_byte>(100 + 3 * i)};
}
inline int palette_alpha(int i) { return 255 - 16 * i; }

/// The value of a sample: column, row, channel.
using Sample = std::function<int(int, int, int)>;

inline std::string make_png(int width, int height, const PngKind& kind, const Sample& sample) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp self, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(self))->append(reinterpret_cast<char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.depth, kind.type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
  std::vector<png_color> palette;
  std::vector<png_byte> alpha;
  for (int i = 0; i < std::min(1 << kind.depth, 16); ++i) {
    palette.push_back(palette_color(i));
    alpha.push_back(static_cast<png_byte>(palette_alpha(i)));
  }
  const bool indexed = kind.type == PNG_COLOR_TYPE_PALETTE;
  if (indexed) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  // Where there is no palette, the colour of the first pixel is the transparent one.
  const auto first = [&](int c) { return static_cast<png_uint_16>(sample(0, 0, c)); };
  const png_color_16 key = {0, first(0), first(1), first(2), first(0)};
  if (kind.transparent && indexed) png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), nullptr);
  if (kind.transparent && !indexed) png_set_tRNS(png, info, nullptr, 0, &key);
  png_write_info(png, info);
  png_set_packing(png);
  std::vector<png_byte> row;
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < height; ++y) {
      row.clear();
      for (int x = 0; x < width; ++x) {
        for (int c = 0; c < kind.channels(); ++c) {
          if (kind.depth == 16) row.push_back(static_cast<png_byte>(sample(x, y, c) >> 8));
          row.push_back(static_cast<png_byte>(sample(x, y, c)));
        }
      }
      png_write_row(png, row.data());
    }
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

inline std::span<const uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

}  // namespace siamese::image_files
