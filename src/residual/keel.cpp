// keel: x = N(a·x + F(N_in(x))), a = 2L; end x.
#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {
namespace {

class Keel final : public Scheme {
 public:
  explicit Keel(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm")), input_(c.norms("input_norm", true)) {}

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    s = settle(std::move(s));
    return modulated(normed(s.s[0], input_[static_cast<size_t>(site.k)]), m, s);
  }

  at::Tensor finish(Streams s) const override { return settle(std::move(s)).s[0].to(dtype_); }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    const at::Tensor sum = add(s.s[0] * (2.0 * blocks_), rows(r, row_scale));
    s.s[0] = normed(sum, norm_[static_cast<size_t>(site.k)]).to(stream_dtype_);
    return s;
  }

 private:
  std::vector<Norm> norm_, input_;
};

}  // namespace

std::unique_ptr<Scheme> make_keel(const SchemeContext& c) { return std::make_unique<Keel>(c); }

}  // namespace siamese
