#include "nn/feed_forward.h"

namespace siamese {

at::Tensor FeedForward::operator()(const at::Tensor& projected, const at::Tensor& activated) const {
  if (!rebuild) return out(activate(projected, activation, fused));
  return activate_and_project(projected, activation, out.weight, out.bias, fused, activated);
}

}  // namespace siamese
