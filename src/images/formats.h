// The formats behind codec.h: one decoder and one encoder each. `name` is fit to be printed, pictures are checked.
#pragma once

#include <setjmp.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "images/codec.h"
#include "images/image.h"

namespace siamese {

/// Runs calls into a C library whose error handler jumps to `errors.jump`; false: errors.message says what went wrong.
/// Compilers do not inline what calls setjmp, so the caller's variables are as they were at the call; what lies between
/// has no destructors.
template <class Errors, class Calls>
bool guarded(Errors& errors, Calls calls) {
  static_assert(std::is_trivially_destructible_v<Calls>);
  if (setjmp(errors.jump) != 0) return false;
  calls();
  return true;
}

Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options);
Image decode_png(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options);

/// The whole file. `image` has 1 or 3 channels.
std::string encode_jpeg(const Image& image, const std::string& name, int quality);
std::string encode_png(const Image& image, const std::string& name);

/// Throws Error when a file claims to hold more pixels than accepted. To be called before memory is taken.
void check_size(int64_t width, int64_t height, const std::string& name, const DecodeOptions& options);

}  // namespace siamese
