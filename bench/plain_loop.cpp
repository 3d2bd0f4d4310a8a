#include "plain_loop.h"

#include <cstddef>
#include <cstdio>

// In this order: it needs the ones above and does not include them.
#include <jpeglib.h>

#include <atomic>

#include "in_parallel.h"
#include "util/error.h"

namespace siamese {
namespace {

/// The default error handler of libjpeg ends the program with a message: enough here.
Image decode_plainly(const std::vector<unsigned char>& file) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  Image image(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.at(0, static_cast<int>(info.output_scanline));
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return image;
}

void read_plainly(const std::string& path, std::vector<unsigned char>& content) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail("{}: cannot open", path);
  std::fseek(file, 0, SEEK_END);
  content.resize(static_cast<size_t>(std::ftell(file)));
  std::rewind(file);
  const size_t read = std::fread(content.data(), 1, content.size(), file);
  std::fclose(file);
  if (read != content.size()) fail("{}: cannot read", path);
}

}  // namespace

int64_t plain_loop(const std::vector<std::string>& paths, int size, Filter filter, int64_t threads) {
  std::atomic<int64_t> sum = 0;
  in_parallel(static_cast<int64_t>(paths.size()), threads, [&](int64_t i) {
    thread_local std::vector<unsigned char> content;
    read_plainly(paths[static_cast<size_t>(i)], content);
    sum += resize(decode_plainly(content), size, size, filter).pixels[0];
  });
  return sum;
}

}  // namespace siamese
