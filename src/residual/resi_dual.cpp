// resi_dual: r = F(x); x = N(x + r); y += r; end x + N(y).
#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {
namespace {

class ResiDual final : public Scheme {
 public:
  explicit ResiDual(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm")), end_(c.norm("ln_f")) {}

  Streams start(const at::Tensor& embedding) const override {
    const at::Tensor e = embedding.to(stream_dtype_);
    return {{e, e}, {}, {}, {}};
  }

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    StreamStepInput in = written(s);
    in.read_y = false;
    const StreamStepOutput out = step(in, s, m);
    return {out.z, {{out.x, out.y}, {}, site, out.stats}, out.activated};
  }

  at::Tensor finish(Streams s) const override {
    StreamStepInput in = written(s);
    in.norm_y = end_;
    return step(in, s).z;
  }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    const at::Tensor scaled = rows(r, row_scale);
    s.s[0] = normed(add(s.s[0], scaled), norm_[static_cast<size_t>(site.k)]).to(stream_dtype_);
    s.s[1] = add(s.s[1], scaled);
    return s;
  }

 private:
  /// The norm on x belongs to the write; the one before it may be pending still.
  StreamStepInput written(const Streams& s) const {
    const size_t k = static_cast<size_t>(s.site.k);
    StreamStepInput in = on_x(s, norm_[k > 0 ? k - 1 : 0]);
    in.y = s.s[1];
    if (s.pending.r.defined()) in.norm_x = norm_[k];
    return in;
  }

  std::vector<Norm> norm_;
  Norm end_;  // on y, part of the scheme: it stays where the model's final layer has a norm of its own
};

}  // namespace

std::unique_ptr<Scheme> make_resi_dual(const SchemeContext& c) { return std::make_unique<ResiDual>(c); }

}  // namespace siamese
