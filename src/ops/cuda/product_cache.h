// Which algorithm of cuBLASLt is the fastest for a shape, kept in a file for the device and the library's version:
// the next process need not try them again. A run that is resumed brings its own, which go first.
#pragma once

#include <cublasLt.h>

#include <string>

#include "ops/product_list.h"

namespace siamese {

/// Not for several threads at a time.
class ProductCache {
 public:
  /// Reads the file of this device; a missing or damaged one is an empty cache.
  ProductCache(const std::string& device, size_t version);

  /// The device and the library's version: the origin of a list.
  const std::string& origin() const { return origin_; }
  bool find(const std::string& key, cublasLtMatmulAlgo_t* algo) const;
  /// Remembers and writes the file (a temporary one, then a rename). Failing to write is no error.
  void add(const std::string& key, const cublasLtMatmulAlgo_t& algo);
  /// Those found before all others from here on; not for the file, which is not this run's.
  void prefer(ProductList products) { preferred_ = std::move(products); }
  const ProductList& preferred() const { return preferred_; }

 private:
  std::string file_, origin_;
  ProductList algorithms_, preferred_;
};

ProductAlgorithm bytes_of(const cublasLtMatmulAlgo_t& algo);

}  // namespace siamese
