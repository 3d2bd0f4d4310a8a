// hc_static: A_m = e_(k mod n), A_r = I, B = 1 at the start, which is exactly pre.
#include "residual/hc_static.h"

#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {

HcStatic::HcStatic(const SchemeContext& c) : HyperConnections(c) {
  for (int k = 0; k < 2 * c.blocks(); ++k) {
    const Site site{k};
    static_.push_back({add_hyper(c, site, "alpha_m", {n_}, {InitSpec::one_hot, static_cast<double>(k % n_)}),
                       add_hyper(c, site, "alpha_r", {n_, n_}, {InitSpec::diagonal, 1.0, 0.0}),
                       add_hyper(c, site, "beta", {n_}, {InitSpec::constant, 1.0})});
  }
}

HyperMaps HcStatic::maps(const at::Tensor&, const Site& site) const {
  const Static& p = static_[static_cast<size_t>(site.k)];
  return {p.alpha_m, p.alpha_r.t(), p.beta};
}

void HcStatic::describe_maps(HyperStepInput& in, const Site& site) const {
  const Static& p = static_[static_cast<size_t>(site.k)];
  in.kind = HyperKind::fixed;
  in.maps = {p.alpha_m, p.alpha_r, p.beta};
}

std::unique_ptr<Scheme> make_hc_static(const SchemeContext& c) { return std::make_unique<HcStatic>(c); }

}  // namespace siamese
