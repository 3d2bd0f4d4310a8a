// Which algorithms the products of this process take (ops/cuda/gemm_cuda.cpp), for a run to keep.
#pragma once

#include <string>

namespace siamese {

/// Those of the shapes met so far (ops/product_list.h); "" where cuBLASLt is missing or none was chosen.
std::string chosen_products();

/// Shapes named in `text` take its algorithms from here on, those met already too.
void prefer_products(const std::string& text);

}  // namespace siamese
