#include "ops/cuda/product_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/cuda/woven.h"

namespace siamese {
namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(ProductAlgorithm));

/// Of choosing: what was chosen by an earlier one, or among others, is not taken from its file.
const char* method() { return kernels::woven_wanted(kernels::Woven::fastest) ? "-2-woven" : "-2"; }

/// $SIAMESE_CACHE, or siamese in the user's cache folder; "" where there is neither.
std::string folder() {
  if (const char* own = std::getenv("SIAMESE_CACHE"); own != nullptr) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0)
    return std::string(cache) + "/siamese";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != 0 ? std::string(home) + "/.cache/siamese" : "";
}

/// One process at a time reads the file and writes it anew; where that cannot be had, all the same.
class Locked {
 public:
  explicit Locked(const std::string& file) : descriptor_(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);  // another user's
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() {
    if (descriptor_ >= 0) close(descriptor_);
  }

 private:
  int descriptor_;
};

ProductList stored(const std::string& file, const std::string& origin) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return products_from(text.str(), origin);
}

}  // namespace

ProductAlgorithm bytes_of(const cublasLtMatmulAlgo_t& algo) {
  ProductAlgorithm bytes;
  std::memcpy(bytes.data(), &algo, bytes.size());
  return bytes;
}

ProductCache::ProductCache(const std::string& device, size_t version)
    : origin_(device + ", cuBLASLt " + std::to_string(version)) {
  if (folder().empty()) return;
  std::string name = device;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  file_ = folder() + "/products-" + name + "-cublaslt" + std::to_string(version) + method() + ".txt";
  algorithms_ = stored(file_, origin_);
}

bool ProductCache::find(const std::string& key, cublasLtMatmulAlgo_t* algo) const {
  for (const ProductList* list : {&preferred_, &algorithms_})
    if (const auto found = list->find(key); found != list->end()) {
      std::memcpy(algo, found->second.data(), found->second.size());
      return true;
    }
  return false;
}

void ProductCache::add(const std::string& key, const cublasLtMatmulAlgo_t& algo) {
  algorithms_[key] = bytes_of(algo);
  if (file_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), ignored);
  const Locked locked(file_ + ".lock");
  ProductList all = algorithms_;
  all.merge(stored(file_, origin_));  // what other processes have added meanwhile
  const std::string temporary = file_ + "." + std::to_string(getpid());
  std::ofstream out(temporary);
  out << to_text(all, origin_);
  out.close();
  if (out)
    std::filesystem::rename(temporary, file_, ignored);
  else  // the disk is full: what was there stays
    std::filesystem::remove(temporary, ignored);
}

}  // namespace siamese
