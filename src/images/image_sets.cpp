#include <filesystem>

#include "images/sets.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

void require_folder(const std::string& path, const char* key) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) return;
  const std::string shown = printable(path, SIZE_MAX);
  if (status.type() == std::filesystem::file_type::not_found) fail("{}: {} does not exist", key, shown);
  if (error) fail("{}: {}: {}", key, shown, error.message());
  fail("{}: {} is a file, expected a folder", key, shown);
}

}  // namespace

ImageSets make_image_sets(const DataConfig& data, int64_t image_size, uint64_t seed) {
  if (data.source == "shapes") return make_shapes_sets(data.shapes, image_size, seed);
  const bool known = data.source == "folder" || data.source == "cifar10" || data.source == "idx";
  if (!known) fail("data.source: {} is no source of images (folder, cifar10, idx, shapes)", printable(data.source));
  if (data.images.empty()) fail("data.images: not set, but data.source is {}", data.source);
  require_folder(data.images, "data.images");
  if (!data.validation_images.empty()) require_folder(data.validation_images, "data.validation_images");
  if (data.source == "folder") return make_folder_sets(data);
  if (data.source == "cifar10") return make_cifar_sets(data);
  return make_idx_sets(data);
}

}  // namespace siamese
