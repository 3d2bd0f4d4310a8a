// The formats behind codec.h: one decoder and one encoder each. `name` is fit to be printed, pictures are checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "images/codec.h"
#include "images/image.h"

namespace siamese {

Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options);
Image decode_png(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options);

/// The whole file. `image` has 1 or 3 channels.
std::string encode_jpeg(const Image& image, const std::string& name, int quality);
std::string encode_png(const Image& image, const std::string& name);

/// Throws Error when a file claims to hold more pixels than accepted. To be called before memory is taken.
void check_size(int64_t width, int64_t height, const std::string& name, const DecodeOptions& options);

}  // namespace siamese
