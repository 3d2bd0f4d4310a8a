// mix_ln: the first floor(f·L) blocks x = N(x + F(x)), the rest as pre; end N(x).
#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {
namespace {

class MixLn final : public Scheme {
 public:
  explicit MixLn(const SchemeContext& c) : Scheme(c), norm_(make_norms(c)), end_(c.end_norm("ln_f")) {}

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    s = settle(std::move(s));
    const at::Tensor z = post(site) ? s.s[0].to(dtype_) : normed(s.s[0], norm_[static_cast<size_t>(site.k)]);
    return modulated(z, m, s);
  }

  at::Tensor finish(Streams s) const override { return normed(settle(std::move(s)).s[0], end_); }

 protected:
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    s.s[0] = add(s.s[0], rows(r, row_scale));
    if (post(site)) s.s[0] = normed(s.s[0], norm_[static_cast<size_t>(site.k)]).to(stream_dtype_);
    return s;
  }

 private:
  bool post(const Site& site) const { return site.block() < static_cast<int>(config_.mix_fraction * blocks_); }

  static std::vector<Norm> make_norms(const SchemeContext& c) {
    std::vector<Norm> norms;
    for (int k = 0; k < 2 * c.blocks(); ++k) {
      const Site site{k};
      const std::string name = SchemeContext::block_name(site, site.attention() ? "attn_norm" : "ff_norm");
      const bool is_post = site.block() < static_cast<int>(c.config.mix_fraction * c.blocks());
      norms.push_back(is_post ? c.norm(name) : c.input_norm(name));
    }
    return norms;
  }

  std::vector<Norm> norm_;
  Norm end_;
};

}  // namespace

std::unique_ptr<Scheme> make_mix_ln(const SchemeContext& c) { return std::make_unique<MixLn>(c); }

}  // namespace siamese
