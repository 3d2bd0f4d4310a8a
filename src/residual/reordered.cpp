// reordered (OLMo-2): x += N(F(x)); end N(x).
#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {
namespace {

class Reordered final : public Scheme {
 public:
  explicit Reordered(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm")), end_(c.end_norm("ln_f")) {}

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    const StreamStepOutput out = written(s, {}, m);
    return {out.z, {{out.y}, {}, site, {}}, out.activated};
  }

  at::Tensor finish(Streams s) const override { return written(s, end_, {}).z; }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    s.s[0] = add(s.s[0], rows(normed(r, norm_[static_cast<size_t>(site.k)]), row_scale));
    return s;
  }

 private:
  /// The pending update normed and added; then the norm of what is read.
  StreamStepOutput written(const Streams& s, const Norm& norm, const Modulation& m) const {
    StreamStepInput in;
    in.y = s.s[0];
    in.norm_y = norm;
    if (s.pending.r.defined()) in.norm_r = norm_[static_cast<size_t>(s.site.k)];
    return step(in, s, m);
  }

  std::vector<Norm> norm_;
  Norm end_;
};

}  // namespace

std::unique_ptr<Scheme> make_reordered(const SchemeContext& c) { return std::make_unique<Reordered>(c); }

}  // namespace siamese
