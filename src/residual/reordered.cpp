// reordered (OLMo-2): x += N(F(x)); end N(x).
#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {
namespace {

class Reordered final : public Scheme {
 public:
  explicit Reordered(const SchemeContext& c) : Scheme(c), norm_(c.norms("norm")), end_(c.end_norm("ln_f")) {}

  Read read(Streams s, const Site&, const Modulation& m) const override {
    s = settle(std::move(s));
    return {modulate(s.s[0].to(dtype_), m), s};
  }

  at::Tensor finish(Streams s) const override { return normed(settle(std::move(s)).s[0], end_); }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    s.s[0] = add(s.s[0], rows(normed(r, norm_[static_cast<size_t>(site.k)]), row_scale));
    return s;
  }

 private:
  std::vector<Norm> norm_;
  Norm end_;
};

}  // namespace

std::unique_ptr<Scheme> make_reordered(const SchemeContext& c) { return std::make_unique<Reordered>(c); }

}  // namespace siamese
