// span (SpanNorm), one block: a = Attn(x); m = FF(N_mid(x + a)); x = N_out(x + a + m) [aggregate: block] or
// N_out(x + m) [aggregate: ffn]; output projections start with 1/sqrt(2L); end x.
// A reading of the paper's abstract: its exact constants were not public, hence the option.
#include <ATen/ATen.h>

#include <cmath>

#include "residual/schemes.h"

namespace siamese {
namespace {

class Span final : public Scheme {
 public:
  explicit Span(const SchemeContext& c)
      : Scheme(c), mid_(per_block(c, "mid_norm", true)), out_(per_block(c, "out_norm", false)) {}

  Read read(Streams s, const Site& site, const Modulation& m) const override {
    s = settle(std::move(s));
    const at::Tensor z =
        site.attention() ? s.s[0].to(dtype_) : normed(s.s.back(), mid_[static_cast<size_t>(site.block())]);
    return modulated(z, m, s);
  }

  at::Tensor finish(Streams s) const override { return settle(std::move(s)).s[0].to(dtype_); }

  std::optional<double> init_scale(Role role, int, int blocks) const override {
    return role == Role::output || role == Role::ff_out ? 1.0 / std::sqrt(2.0 * blocks) : 1.0;
  }

 protected:
  /// Between the two sub-layers s = {x + a}, or {x, x + a} when only the feed-forward is aggregated.
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override {
    const at::Tensor sum = add(s.s[0], rows(r, row_scale));
    if (!site.attention()) {
      s.s = {normed(sum, out_[static_cast<size_t>(site.block())]).to(stream_dtype_)};
    } else if (config_.span_aggregate == "ffn") {
      s.s.push_back(sum);
    } else {
      s.s[0] = sum;
    }
    return s;
  }

 private:
  static std::vector<Norm> per_block(const SchemeContext& c, const std::string& suffix, bool input) {
    std::vector<Norm> all;
    for (int l = 0; l < c.blocks(); ++l) {
      const std::string name = SchemeContext::block_name({2 * l}, suffix);
      all.push_back(input ? c.input_norm(name) : c.norm(name));
    }
    return all;
  }

  std::vector<Norm> mid_, out_;
};

}  // namespace

std::unique_ptr<Scheme> make_span(const SchemeContext& c) { return std::make_unique<Span>(c); }

}  // namespace siamese
