// post: x = N(x); x += F(x); end N(x). The norm stands at the start of each sub-layer, so the embedding is normed and
// the last norm is the final one.
#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {
namespace {

class Post final : public Scheme {
 public:
  explicit Post(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm")), end_(c.end_norm("ln_f")) {}

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    const StreamStepOutput out = normed_step(s, norm_[static_cast<size_t>(site.k)], m);
    return {out.z, {{out.x}, {}, site, out.stats}, out.activated};
  }

  at::Tensor finish(Streams s) const override { return normed_step(s, end_, {}).z; }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site&) const override {
    s.s[0] = add(s.s[0], rows(r, row_scale));
    return s;
  }

 private:
  StreamStepOutput normed_step(const Streams& s, const Norm& norm, const Modulation& m) const {
    StreamStepInput in = on_x(s, norm_[static_cast<size_t>(s.site.k)]);
    in.norm_x = norm;
    return step(in, s, m);
  }

  std::vector<Norm> norm_;
  Norm end_;
};

}  // namespace

std::unique_ptr<Scheme> make_post(const SchemeContext& c) { return std::make_unique<Post>(c); }

}  // namespace siamese
