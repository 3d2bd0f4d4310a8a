// Which algorithm of cuBLASLt is the fastest for a shape, kept in a file for the device and the library's version:
// the next process need not try them again. One line a shape: key, then the algorithm's 64 bytes in hexadecimal.
#pragma once

#include <cublasLt.h>

#include <map>
#include <mutex>
#include <string>

namespace siamese {

class ProductCache {
 public:
  /// Reads the file of this device; a missing or damaged one is an empty cache.
  ProductCache(const std::string& device, size_t version);

  bool find(const std::string& key, cublasLtMatmulAlgo_t* algo);
  /// Remembers and writes the file (a temporary one, then a rename). Failing to write is no error.
  void add(const std::string& key, const cublasLtMatmulAlgo_t& algo);

 private:
  std::mutex mutex_;
  std::string file_;
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace siamese
