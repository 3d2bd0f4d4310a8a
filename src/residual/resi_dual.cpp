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
    return {{e, e}, {}, {}};
  }

  Read read(Streams s, const Site&, const Modulation& m) const override {
    s = settle(std::move(s));
    return {modulate(s.s[0].to(dtype_), m), s};
  }

  at::Tensor finish(Streams s) const override {
    s = settle(std::move(s));
    return s.s[0].to(dtype_) + normed(s.s[1], end_);
  }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    const at::Tensor scaled = rows(r, row_scale);
    s.s[0] = normed(add(s.s[0], scaled), norm_[static_cast<size_t>(site.k)]).to(stream_dtype_);
    s.s[1] = add(s.s[1], scaled);
    return s;
  }

 private:
  std::vector<Norm> norm_;
  Norm end_;  // on y, part of the scheme: it stays where the model's final layer has a norm of its own
};

}  // namespace

std::unique_ptr<Scheme> make_resi_dual(const SchemeContext& c) { return std::make_unique<ResiDual>(c); }

}  // namespace siamese
