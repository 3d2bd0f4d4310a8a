#include "nn/feed_forward.h"

#include <ATen/ATen.h>

#include "ops/swiglu.h"

namespace siamese {

at::Tensor FeedForward::operator()(const at::Tensor& h) const {
  const at::Tensor p = in(h);
  if (activation == Activation::gelu) return out(at::gelu(p));
  return out(swiglu(p, fused));
}

}  // namespace siamese
