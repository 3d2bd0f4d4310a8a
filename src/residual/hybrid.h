// Shared by hybrid and hybrid_star, which differ in block 0.
#pragma once

#include "residual/scheme.h"

namespace siamese {

class Hybrid : public Scheme {
 public:
  /// The first `pre_blocks` blocks read through a norm and keep the stream unnormed, as Pre-Norm does.
  Hybrid(const SchemeContext& c, int pre_blocks);
  Read read(Streams s, const Site& site, const Modulation& m) const override;
  at::Tensor finish(Streams s) const override;
  AttentionNorm attention_norm(const Site&) const override { return AttentionNorm::qkv; }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override;

 private:
  const int pre_blocks_;
  std::vector<Norm> norm_;  // off where the attention reads x as it is
  Norm end_;
};

}  // namespace siamese
