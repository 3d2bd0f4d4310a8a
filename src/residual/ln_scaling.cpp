// ln_scaling: x += F(N(x)/sqrt(l+1)); plain init, no depth-scaled init; end N(x).
#include <ATen/ATen.h>

#include <cmath>

#include "residual/schemes.h"

namespace siamese {
namespace {

class LnScaling final : public Scheme {
 public:
  explicit LnScaling(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm", true)), end_(c.end_norm("ln_f")) {}

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    StreamStepInput in;
    in.y = s.s[0];
    in.norm_y = norm_[static_cast<size_t>(site.k)];
    const StreamStepOutput out = step(in, s);
    const double scale = 1.0 / std::sqrt(site.block() + 1.0);
    return modulated(site.block() == 0 ? out.z : out.z * scale, m, {{out.y}, {}, site, {}});
  }

  at::Tensor finish(Streams s) const override { return normed(settle(std::move(s)).s[0], end_); }

  std::optional<double> init_scale(Role, int, int) const override { return 1.0; }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site&) const override {
    s.s[0] = add(s.s[0], rows(r, row_scale));
    return s;
  }

 private:
  std::vector<Norm> norm_;
  Norm end_;
};

}  // namespace

std::unique_ptr<Scheme> make_ln_scaling(const SchemeContext& c) { return std::make_unique<LnScaling>(c); }

}  // namespace siamese
