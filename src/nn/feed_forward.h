// The feed-forward sub-layer: SwiGLU (first half · silu(second half)) or GELU.
#pragma once

#include "nn/linear.h"
#include "ops/activation.h"

namespace siamese {

struct FeedForward {
  Activation activation = Activation::swiglu;
  Linear in, out;
  bool fused = true;
  bool rebuild = true;  // the activation's output in the backward pass, where kernels can, instead of keeping it

  /// From the projection in(h) to the output; `activated` is its activation where that was at hand.
  at::Tensor operator()(const at::Tensor& projected, const at::Tensor& activated = {}) const;
};

}  // namespace siamese
