// Pictures from and to files: JPEG (libjpeg-turbo) and PNG (libpng). What a file says about itself is not believed:
// sizes are bounded before memory is taken, and damage throws Error naming the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "images/image.h"

namespace siamese {

struct DecodeOptions {
  /// JPEG: decode at 1/2, 1/4 or 1/8 as long as the shorter side keeps at least this many pixels; 0: at full size.
  int least_side = 0;
  int64_t most_pixels = int64_t{1} << 28;
  /// JPEG: asked with the size of the decoded picture. Pixels outside may stay black, those inside are the same as
  /// without it; the whole file is read and checked all the same. Not set: all are needed.
  Needed needed = nullptr;
};

/// Always three channels: grey is repeated, CMYK converted, 16 bits become 8, transparency lies on black, palettes are
/// looked up. The format is told from the first bytes, not from `name`, which is for messages. A JPEG that ends early
/// is an error, not a picture with a grey rest.
Image decode_image(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options = {});
Image read_image(const std::string& path, const DecodeOptions& options = {});

void write_png(const std::string& path, const Image& image);
void write_jpeg(const std::string& path, const Image& image, int quality = 90);

/// Pictures of one size side by side, `columns` a row, `gap` white pixels between them.
Image grid_of(std::span<const Image> images, int columns, int gap = 2);

}  // namespace siamese
