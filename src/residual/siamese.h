// Shared by siamese and siamese_hybrid, which differ in what the attention reads.
#pragma once

#include "residual/scheme.h"

namespace siamese {

class Siamese final : public Scheme {
 public:
  Siamese(const SchemeContext& c, bool hybrid);
  Streams start(const at::Tensor& embedding) const override;
  Read read(Streams s, const Site& site, const Modulation& m) const override;
  at::Tensor finish(Streams s) const override;
  AttentionNorm attention_norm(const Site&) const override {
    return hybrid_ ? AttentionNorm::qkv : AttentionNorm::none;
  }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override;

 private:
  /// 1/c of the write at `site`, c = sqrt(2(l+1)) for both sub-layers of block l.
  double depth_scale(const Site& site) const;
  StreamStepInput streams_of(const Streams& s) const;

  const bool hybrid_;
  std::vector<Norm> x_, y_, input_;  // N_x, N_y, N_in of every sub-layer; off where the scheme has none
  std::vector<at::Tensor> c1_;       // of every block (hybrid)
  Norm end_x_, end_y_, end_;
};

}  // namespace siamese
