#include "ops/cuda/product_cache.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace siamese {
namespace {

constexpr size_t kBytes = sizeof(cublasLtMatmulAlgo_t);

/// $SIAMESE_CACHE, or siamese in the user's cache folder; "" where there is neither.
std::string folder() {
  if (const char* own = std::getenv("SIAMESE_CACHE"); own != nullptr) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0)
    return std::string(cache) + "/siamese";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != 0 ? std::string(home) + "/.cache/siamese" : "";
}

std::string hex(const cublasLtMatmulAlgo_t& algo) {
  unsigned char bytes[kBytes];
  std::memcpy(bytes, &algo, kBytes);
  std::string text;
  char two[3];
  for (const unsigned char b : bytes) {
    std::snprintf(two, sizeof two, "%02x", b);
    text += two;
  }
  return text;
}

bool from_hex(const std::string& text, cublasLtMatmulAlgo_t* algo) {
  if (text.size() != 2 * kBytes || text.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  unsigned char bytes[kBytes];
  for (size_t i = 0; i < kBytes; ++i)
    bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  std::memcpy(algo, bytes, kBytes);
  return true;
}

}  // namespace

ProductCache::ProductCache(const std::string& device, size_t version) {
  if (folder().empty()) return;
  std::string name = device;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  file_ = folder() + "/products-" + name + "-cublaslt" + std::to_string(version) + ".txt";
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    const size_t cut = line.rfind(' ');
    cublasLtMatmulAlgo_t algo;
    if (cut != std::string::npos && from_hex(line.substr(cut + 1), &algo)) algorithms_[line.substr(0, cut)] = algo;
  }
}

bool ProductCache::find(const std::string& key, cublasLtMatmulAlgo_t* algo) {
  const std::lock_guard lock(mutex_);
  const auto found = algorithms_.find(key);
  if (found == algorithms_.end()) return false;
  *algo = found->second;
  return true;
}

void ProductCache::add(const std::string& key, const cublasLtMatmulAlgo_t& algo) {
  const std::lock_guard lock(mutex_);
  algorithms_[key] = algo;
  if (file_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), ignored);
  const std::string temporary = file_ + "." + std::to_string(getpid());
  {
    std::ofstream out(temporary);
    for (const auto& [name, a] : algorithms_) out << name << ' ' << hex(a) << '\n';
    if (!out) return;
  }
  std::filesystem::rename(temporary, file_, ignored);
}

}  // namespace siamese
