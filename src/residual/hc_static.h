// Learned constant maps; hc_dynamic adds a part that depends on the token.
#pragma once

#include "residual/hyper.h"

namespace siamese {

class HcStatic : public HyperConnections {
 public:
  explicit HcStatic(const SchemeContext& c);

 protected:
  HyperMaps maps(const at::Tensor& streams, const Site& site) const override;
  void describe_maps(HyperStepInput& in, const Site& site) const override;

  struct Static {
    at::Tensor alpha_m, alpha_r, beta;  // [n], [n from, n to], [n]
  };
  std::vector<Static> static_;
};

}  // namespace siamese
