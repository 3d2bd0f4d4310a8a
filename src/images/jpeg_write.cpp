// Writing JPEG by libjpeg-turbo.
#include <array>
#include <new>
#include <utility>

#include "images/formats.h"
#include "images/jpeg_errors.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

using namespace jpeg;

/// Where libjpeg puts what it has compressed.
struct Destination : jpeg_destination_mgr {
  std::array<JOCTET, 16384> buffer;
  std::string content;

  /// Without exceptions: the caller is C.
  bool keep(size_t count) noexcept {
    try {
      content.append(reinterpret_cast<const char*>(buffer.data()), count);
    } catch (const std::bad_alloc&) {
      return false;
    }
    next_output_byte = buffer.data();
    free_in_buffer = buffer.size();
    return true;
  }
};

void keep_or_stop(j_compress_ptr info, size_t unused) {
  auto& out = *static_cast<Destination*>(info->dest);
  if (!out.keep(out.buffer.size() - unused)) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
}

void write_into(Destination& out) {
  out.init_destination = [](j_compress_ptr info) { static_cast<Destination*>(info->dest)->keep(0); };
  out.empty_output_buffer = [](j_compress_ptr info) -> boolean {
    keep_or_stop(info, 0);  // free_in_buffer means nothing here
    return TRUE;
  };
  out.term_destination = [](j_compress_ptr info) { keep_or_stop(info, info->dest->free_in_buffer); };
}

struct Encoder {
  Errors errors{};
  Destination out{};
  jpeg_compress_struct info{};

  Encoder() {
    listen(errors);
    write_into(out);
    info.err = &errors;
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { jpeg_destroy_compress(&info); }
};

}  // namespace

std::string encode_jpeg(const Image& image, const std::string& name, int quality) {
  Encoder jpeg;
  jpeg_compress_struct& info = jpeg.info;
  const bool done = guarded(jpeg.errors, [&] {
    jpeg_create_compress(&info);
    info.dest = &jpeg.out;
    info.image_width = static_cast<JDIMENSION>(image.width);
    info.image_height = static_cast<JDIMENSION>(image.height);
    info.input_components = image.channels;
    info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, quality, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      JSAMPROW line = const_cast<uint8_t*>(image.at(0, static_cast<int>(info.next_scanline)));
      jpeg_write_scanlines(&info, &line, 1);
    }
    jpeg_finish_compress(&info);
  });
  if (!done) fail("{}: cannot write as JPEG: {}", name, printable(jpeg.errors.message, 200));
  return std::move(jpeg.out.content);
}

}  // namespace siamese
