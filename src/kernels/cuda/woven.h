// Which products take the form of gemm_woven.cuh: SIAMESE_WOVEN is the sum of theirs, none by default.
#pragma once

#include <cstdlib>

namespace siamese::kernels {

/// SwiGLU's two and that of q, k and v where they serve; others where that is the fastest, or wherever it serves.
enum class Woven { swiglu = 1, swiglu_backward = 2, qkv = 4, fastest = 8, always = 16 };

inline bool woven_wanted(Woven which) {
  const char* given = std::getenv("SIAMESE_WOVEN");
  return given != nullptr && (std::atoi(given) & static_cast<int>(which)) != 0;
}

}  // namespace siamese::kernels
