// Shared by sandwich and peri, which differ in one norm on the embedding.
#pragma once

#include "residual/scheme.h"

namespace siamese {

class Sandwich : public Scheme {
 public:
  explicit Sandwich(const SchemeContext& c);
  Read read(Streams s, const Site& site, const Modulation& m) const override;
  at::Tensor finish(Streams s) const override;

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override;

 private:
  /// The pending update normed and added; then the norm of what is read.
  StreamStepOutput written(const Streams& s, const Norm& norm, const Modulation& m) const;

  std::vector<Norm> norm_, out_;
  Norm end_;
};

}  // namespace siamese
