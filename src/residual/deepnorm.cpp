// deepnorm: x = N(a·x + F(x)), a = (2L)^(1/4); value, output and feed-forward weights start with gain (8L)^(-1/4);
// end x.
#include <ATen/ATen.h>

#include <cmath>

#include "residual/schemes.h"

namespace siamese {
namespace {

class DeepNorm final : public Scheme {
 public:
  explicit DeepNorm(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm")) {}

  Read read(Streams s, const Site&, const Modulation& m) const override {
    s = settle(std::move(s));
    return modulated(s.s[0].to(dtype_), m, s);
  }

  at::Tensor finish(Streams s) const override { return settle(std::move(s)).s[0].to(dtype_); }

  std::optional<double> init_scale(Role role, int, int blocks) const override {
    return role == Role::query_key ? 1.0 : std::pow(8.0 * blocks, -0.25);
  }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    const double a = std::pow(2.0 * blocks_, 0.25);
    const at::Tensor sum = add(s.s[0] * a, rows(r, row_scale));
    s.s[0] = normed(sum, norm_[static_cast<size_t>(site.k)]).to(stream_dtype_);
    return s;
  }

 private:
  std::vector<Norm> norm_;
};

}  // namespace

std::unique_ptr<Scheme> make_deepnorm(const SchemeContext& c) { return std::make_unique<DeepNorm>(c); }

}  // namespace siamese
