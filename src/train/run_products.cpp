#include "train/run_products.h"

#include <filesystem>

#include "ops/gpu_tools.h"
#include "util/files.h"

namespace siamese {
namespace {

std::string file_in(const RunFolder& folder) { return folder.file("products.txt"); }

}  // namespace

void take_products(const RunFolder& folder, bool resume) {
  if (gpu_tools() == nullptr) return;
  const std::string file = file_in(folder);
  gpu_tools()->use_products(resume && std::filesystem::exists(file) ? read_file(file) : "");
}

void keep_products(const RunFolder& folder) {
  const std::string products = gpu_tools() != nullptr ? gpu_tools()->products() : "";
  if (!products.empty()) write_file_atomic(file_in(folder), products);
}

}  // namespace siamese
