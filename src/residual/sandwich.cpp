// sandwich: x += N2(F(N1(x))); end N(x).
#include "residual/sandwich.h"

#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {

Sandwich::Sandwich(const SchemeContext& c)
    : Scheme(c), norm_(c.norms("norm", true)), out_(c.norms("out_norm")), end_(c.end_norm("ln_f")) {}

Read Sandwich::read(Streams s, const Site& site, const Modulation& m) const {
  const StreamStepOutput out = written(s, norm_[static_cast<size_t>(site.k)], m);
  return {out.z, {{out.y}, {}, site, {}}, out.activated};
}

at::Tensor Sandwich::finish(Streams s) const { return written(s, end_, {}).z; }

StreamStepOutput Sandwich::written(const Streams& s, const Norm& norm, const Modulation& m) const {
  StreamStepInput in;
  in.y = s.s[0];
  in.norm_y = norm;
  if (s.pending.r.defined()) in.norm_r = out_[static_cast<size_t>(s.site.k)];
  return step(in, s, m);
}

Streams Sandwich::apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const {
  s.s[0] = add(s.s[0], rows(normed(r, out_[static_cast<size_t>(site.k)]), row_scale));
  return s;
}

std::unique_ptr<Scheme> make_sandwich(const SchemeContext& c) { return std::make_unique<Sandwich>(c); }

}  // namespace siamese
