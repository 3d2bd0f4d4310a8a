// Which algorithms the products of this process take (ops/cuda/gemm_cuda.cpp), for a run to keep.
#pragma once

#include <string>

namespace siamese {

/// Of the current device: those of the shapes met so far (ops/product_list.h); "" where cuBLASLt is missing or none was
/// chosen.
std::string chosen_products();

/// On the current device shapes named in `text` take its algorithms from here on, those met already too.
void prefer_products(const std::string& text);

/// Gives back what products use beside their matrices. No captured graph may be alive: it would go on using it.
void forget_workspaces();

}  // namespace siamese
