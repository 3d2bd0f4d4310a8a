// Reading JPEG by libjpeg-turbo.
#include <algorithm>
#include <vector>

#include "images/formats.h"
#include "images/jpeg_errors.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

using namespace jpeg;

/// A small file can ask for any number of passes over a large picture; real ones have about ten.
constexpr int kMostScans = 500;

void on_progress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  const int scans = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
  if (scans <= kMostScans) return;
  auto& errors = *static_cast<Errors*>(info->err);
  std::snprintf(errors.message, sizeof errors.message, "more than %d scans", kMostScans);
  std::longjmp(errors.jump, 1);
}

struct Decoder {
  const std::string& name;
  Errors errors{};
  jpeg_progress_mgr progress{};
  jpeg_decompress_struct info{};

  explicit Decoder(const std::string& n) : name(n) {
    listen(errors);
    info.err = &errors;
    progress.progress_monitor = on_progress;
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }

  template <class Calls>
  void run(Calls calls) {
    if (!guarded(errors, calls)) fail("{}: is not a usable JPEG: {}", name, printable(errors.message, 200));
  }
};

/// 1, 2, 4 or 8: how much smaller the picture may be decoded.
unsigned denominator(const jpeg_decompress_struct& info, int least_side) {
  if (least_side <= 0) return 1;
  const unsigned side = std::min(info.image_width, info.image_height), least = static_cast<unsigned>(least_side);
  for (const unsigned d : {8u, 4u, 2u}) {
    if ((side + d - 1) / d >= least) return d;  // libjpeg rounds up
  }
  return 1;
}

/// A block of 8 x 8 takes at least a bit, except in arithmetic coding: what cannot be whole is refused before memory is
/// taken for it.
void check_length(const Decoder& jpeg, size_t bytes) {
  const uint64_t blocks = (uint64_t{jpeg.info.image_width} + 7) / 8 * ((uint64_t{jpeg.info.image_height} + 7) / 8);
  if (jpeg.info.arith_code || blocks <= uint64_t{8} * bytes) return;
  fail("{}: is not a usable JPEG: {} x {} pixels cannot be in {} bytes", jpeg.name, jpeg.info.image_width,
       jpeg.info.image_height, bytes);
}

/// Ink to light. Adobe's programs, which make nearly all CMYK files, store 255 - ink.
void light_of_inks(const uint8_t* inks, int width, bool inverted, uint8_t* out) {
  const int flip = inverted ? 0 : 255;
  for (int x = 0; x < width; ++x) {
    const int black = inks[4 * x + 3] ^ flip;
    for (int c = 0; c < 3; ++c) out[3 * x + c] = static_cast<uint8_t>(((inks[4 * x + c] ^ flip) * black + 127) / 255);
  }
}

/// What is to be decoded: all, or the part that is needed, held inside the picture.
Part part_of(const jpeg_decompress_struct& info, const Needed& needed) {
  const int width = static_cast<int>(info.output_width), height = static_cast<int>(info.output_height);
  // Nearly all files have colours at the full or half resolution. Of others decoded smaller, libjpeg-turbo 2.1 gives
  // other pixels when columns are left out; inks go through a row of their own.
  const bool common = info.max_h_samp_factor <= 2 && info.max_v_samp_factor <= 2 && info.out_color_space == JCS_RGB;
  if (!needed || !common) return {0, 0, width, height};
  const Part asked = needed(width, height);
  Part part;
  part.x = std::clamp(asked.x, 0, width - 1), part.y = std::clamp(asked.y, 0, height - 1);
  part.width = std::clamp(asked.width, 1, width - part.x), part.height = std::clamp(asked.height, 1, height - part.y);
  return part;
}

/// Returns the first column that comes out, at or left of the part's: libjpeg begins and ends at whole blocks.
JDIMENSION leave_out_columns(jpeg_decompress_struct& info, const Part& part) {
  // Colours of half the resolution are interpolated between neighbours, and at the first and last column decoded there
  // is none: those must not be needed.
  constexpr int kNeighbours = 4;
  const int width = static_cast<int>(info.output_width), begin = std::max(0, part.x - kNeighbours);
  const int end = std::min(width, part.x + part.width + kNeighbours);
  if (end - begin == width) return 0;
  auto left = static_cast<JDIMENSION>(begin), columns = static_cast<JDIMENSION>(end - begin);
  jpeg_crop_scanline(&info, &left, &columns);
  return left;
}

/// Skipping to the very end would leave the rest of the file unread, and damage in it unnoticed.
void leave_out_rows_below(jpeg_decompress_struct& info, uint8_t* room) {
  const JDIMENSION left = info.output_height - info.output_scanline;
  if (left > 1) jpeg_skip_scanlines(&info, left - 1);
  if (left > 0) jpeg_read_scanlines(&info, &room, 1);
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options) {
  Decoder jpeg(name);
  jpeg_decompress_struct& info = jpeg.info;
  jpeg.run([&] {
    jpeg_create_decompress(&info);
    info.progress = &jpeg.progress;
    jpeg_mem_src(&info, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info, TRUE);
  });
  check_size(info.image_width, info.image_height, name, options);
  check_length(jpeg, bytes.size());
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  if (info.jpeg_color_space == JCS_UNKNOWN) {
    fail("{}: is a JPEG of {} channels; 1, 3 and 4 are understood", name, info.num_components);
  }
  info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  info.do_block_smoothing = FALSE;  // it would look at neighbours that a part of the picture does not have
  info.scale_num = 1;
  info.scale_denom = denominator(info, options.least_side);
  jpeg.run([&] { jpeg_start_decompress(&info); });

  Image image(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  const Part part = part_of(info, options.needed);
  std::vector<uint8_t> row(size_t{4} * image.width);
  jpeg.run([&] {
    const JDIMENSION left = leave_out_columns(info, part);
    if (part.y > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(part.y));
    while (info.output_scanline < static_cast<JDIMENSION>(part.y + part.height)) {
      uint8_t* const target = image.at(static_cast<int>(left), static_cast<int>(info.output_scanline));
      JSAMPROW line = inks ? row.data() : target;
      jpeg_read_scanlines(&info, &line, 1);
      if (inks) light_of_inks(row.data(), image.width, info.saw_Adobe_marker, target);
    }
    leave_out_rows_below(info, row.data());
    jpeg_finish_decompress(&info);  // reads to the end marker, so that a file without one is noticed
  });
  return image;
}

}  // namespace siamese
