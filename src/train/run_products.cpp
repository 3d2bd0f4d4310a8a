#include "train/run_products.h"

#include <filesystem>

#include "util/files.h"

namespace siamese {
namespace {

constexpr const char* kFile = "products.txt";

}  // namespace

void take_products(const RunFolder& folder, const std::string& checkpoint, GpuTools* gpu) {
  if (gpu == nullptr) return;
  std::string found;
  if (!checkpoint.empty()) {
    const auto other = std::filesystem::absolute(checkpoint).lexically_normal().parent_path().parent_path() / kFile;
    for (const std::string& file : {folder.file(kFile), other.string()})
      if (found.empty() && std::filesystem::exists(file)) found = read_file(file);
  }
  gpu->use_products(found);
}

void keep_products(const RunFolder& folder, GpuTools* gpu) {
  const std::string products = gpu != nullptr ? gpu->products() : "";
  if (!products.empty()) write_file_atomic(folder.file(kFile), products);
}

}  // namespace siamese
