// Files of labelled pictures for the image tests, in every layout that is read.
#pragma once

#include <zlib.h>

#include "data_files.h"
#include "images/codec.h"
#include "images/image_set.h"

namespace siamese {

class ImageFiles {
 public:
  std::string root() const { return std::filesystem::path(folder_.write(".root", "")).parent_path().string(); }
  std::string at(const std::string& name) const { return root() + "/" + name; }

  /// Folders on the way are made.
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
    return folder_.write(name, content);
  }

  /// PNG or JPEG by its name, one colour.
  std::string picture(const std::string& name, uint8_t value, int width = 12, int height = 10) const {
    const std::string path = write(name, "");
    const bool png = name.ends_with("png") || name.ends_with("PNG");
    const Image image(width, height, 3, value);
    png ? write_png(path, image) : write_jpeg(path, image);
    return path;
  }

 private:
  DataFolder folder_;
};

/// A record whose every red value is `value`, green value + 1, blue value + 2.
inline std::string cifar_record(int label, int value) {
  std::string record(1, static_cast<char>(label));
  for (int plane = 0; plane < 3; ++plane) record.append(32 * 32, static_cast<char>(value + plane));
  return record;
}

inline void write_cifar(const ImageFiles& files, const std::string& folder = "") {
  for (int i = 1; i <= 5; ++i) {
    files.write(fmt::format("{}data_batch_{}.bin", folder, i), cifar_record(i, 10 * i) + cifar_record(0, 10 * i + 3));
  }
  files.write(folder + "test_batch.bin", cifar_record(9, 200) + cifar_record(8, 201) + cifar_record(7, 202));
}

inline std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift & 0xFF));
  return bytes;
}

/// `count` pictures, pixel p of picture i is 16·i + p.
inline std::string idx_images(uint32_t count, uint32_t rows = 2, uint32_t columns = 3) {
  std::string bytes = big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(columns);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t p = 0; p < rows * columns; ++p) bytes.push_back(static_cast<char>(16 * i + p));
  }
  return bytes;
}

inline std::string idx_labels(const std::string& labels) {
  return big_endian(0x801) + big_endian(static_cast<uint32_t>(labels.size())) + labels;
}

inline std::string gzipped(const std::string& content) {
  z_stream z{};
  if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&z, content.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

/// Every one of `parts` is in the message.
inline void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << "\nin: " << message;
}

inline DataConfig image_data(const std::string& source, const std::string& images, const std::string& validation = "") {
  DataConfig data;
  data.source = source;
  data.images = images;
  data.validation_images = validation;
  return data;
}

inline ImageSets open_sets(const std::string& source, const ImageFiles& files) {
  return make_image_sets(image_data(source, files.root()), 32, 1);
}

/// What is said about the folder, or what lies `below` it.
inline std::string error_about(const std::string& source, const ImageFiles& files, const std::string& below = "") {
  return error_of([&] { make_image_sets(image_data(source, files.root() + below), 32, 1); });
}

}  // namespace siamese
