// The algorithms of cuBLASLt chosen for shapes of products, as text: kept for the next process in a file of the
// device's (ops/cuda/product_cache.h) and with a run, which keeps them when it is resumed. The first line says which
// device and which version of the library they are for; then one line a shape, the algorithm's bytes in hexadecimal.
#pragma once

#include <array>
#include <map>
#include <string>

namespace siamese {

using ProductAlgorithm = std::array<unsigned char, 64>;  // a cublasLtMatmulAlgo_t: plain bytes, the same in any process
using ProductList = std::map<std::string, ProductAlgorithm>;

std::string to_text(const ProductList& products, const std::string& origin);

/// Empty where the text is of another origin: an algorithm means something else there. Damaged lines are left out.
ProductList products_from(const std::string& text, const std::string& origin);

}  // namespace siamese
