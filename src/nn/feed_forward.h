// The feed-forward sub-layer: SwiGLU (first half · silu(second half)) or GELU.
#pragma once

#include "nn/linear.h"

namespace siamese {

enum class Activation { swiglu, gelu };

struct FeedForward {
  Activation activation = Activation::swiglu;
  Linear in, out;
  bool fused = true;

  at::Tensor operator()(const at::Tensor& h) const;
};

}  // namespace siamese
