// hybrid (HybridNorm): attention with q, k, v normed per head and no norm on x: x += Attn(x); feed-forward:
// x = N(x); x += FF(x); end N(x).
#include "residual/hybrid.h"

#include <ATen/ATen.h>

#include "residual/schemes.h"

namespace siamese {

Hybrid::Hybrid(const SchemeContext& c, int pre_blocks) : Scheme(c), pre_blocks_(pre_blocks) {
  for (int k = 0; k < 2 * c.blocks(); ++k) {
    const Site site{k};
    const bool pre = site.block() < pre_blocks;
    const std::string name = SchemeContext::block_name(site, site.attention() ? "attn_norm" : "ff_norm");
    norm_.push_back(pre ? c.input_norm(name) : site.attention() ? Norm{} : c.norm(name));
  }
  end_ = c.end_norm("ln_f");
}

Read Hybrid::read(Streams s, const Site& site, const Modulation& m) const {
  const bool pre = site.block() < pre_blocks_;
  StreamStepInput in = on_x(s, norm_[static_cast<size_t>(s.site.k)]);
  if (pre) std::swap(in.x, in.y);
  (pre ? in.norm_y : in.norm_x) = norm_[static_cast<size_t>(site.k)];
  const StreamStepOutput out = step(in, s, m);
  return {out.z, {{pre ? out.y : out.x}, {}, site, out.stats}, out.activated};
}

at::Tensor Hybrid::finish(Streams s) const {
  StreamStepInput in = on_x(s, norm_[static_cast<size_t>(s.site.k)]);
  in.norm_x = end_;
  return step(in, s).z;
}

Streams Hybrid::apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site&) const {
  s.s[0] = add(s.s[0], rows(r, row_scale));
  return s;
}

std::unique_ptr<Scheme> make_hybrid(const SchemeContext& c) { return std::make_unique<Hybrid>(c, 0); }

}  // namespace siamese
