#include "nn/feed_forward.h"

#include <ATen/ATen.h>

namespace siamese {

at::Tensor FeedForward::operator()(const at::Tensor& h) const {
  const at::Tensor p = in(h);
  if (activation == Activation::gelu) return out(at::gelu(p));
  const int64_t half = p.size(-1) / 2;
  return out(p.slice(-1, 0, half) * at::silu(p.slice(-1, half)));
}

}  // namespace siamese
