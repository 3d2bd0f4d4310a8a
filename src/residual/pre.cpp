// pre: x += F(N(x)); end N(x). The stream is the step's y: x' = x + r, z = N(x'), in one pass.
#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {
namespace {

class Pre final : public Scheme {
 public:
  explicit Pre(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm", true)), end_(c.end_norm("ln_f")) {}

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    StreamStepInput in;
    in.y = s.s[0];
    in.norm_y = norm_[static_cast<size_t>(site.k)];
    const StreamStepOutput out = step(in, s, m);
    return {out.z, {{out.y}, {}, site, {}}, out.activated};
  }

  at::Tensor finish(Streams s) const override {
    StreamStepInput in;
    in.y = s.s[0];
    in.norm_y = end_;
    return step(in, s).z;
  }

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

std::unique_ptr<Scheme> make_pre(const SchemeContext& c) { return std::make_unique<Pre>(c); }

}  // namespace siamese
