// siamese ("post-pre"): x = N_x(x); r = F(N_in(x + N_y(y))); x += r/c; y += r, c = sqrt(2(l+1)); end N(N(x) + N(y)).
// Switches: input_norm (N_in), depth_scale (c). The write of a sub-layer and the read of the next are one stream step.
#include "residual/siamese.h"

#include <ATen/ATen.h>

#include <cmath>

#include "residual/schemes.h"

namespace siamese {

Siamese::Siamese(const SchemeContext& c, bool hybrid) : Scheme(c), hybrid_(hybrid) {
  for (int k = 0; k < 2 * c.blocks(); ++k) {
    const Site site{k};
    const std::string part = site.attention() ? "attn_" : "ff_";
    const bool mixed = hybrid && site.attention();  // reads c1⊙x + N_y(y), without further norms
    x_.push_back(mixed ? Norm{} : c.norm(SchemeContext::block_name(site, part + "norm")));
    y_.push_back(c.norm(SchemeContext::block_name(site, part + "y_norm")));
    input_.push_back(mixed || !config_.input_norm ? Norm{}
                                                  : c.input_norm(SchemeContext::block_name(site, part + "input_norm")));
    if (mixed)
      c1_.push_back(c.params.add("transformer." + SchemeContext::block_name(site, "c1"), {config_.d_model},
                                 ParamKind::other, {InitSpec::constant, 1.0}));
  }
  end_x_ = c.norm("ln_f");
  end_y_ = c.norm("ln_y_f");
  end_ = c.end_norm("ln_final_f");
}

Streams Siamese::start(const at::Tensor& embedding) const {
  const at::Tensor e = embedding.to(stream_dtype_);
  return {{e, e}, {}, {}, {}};
}

double Siamese::depth_scale(const Site& site) const {
  return config_.depth_scale ? 1.0 / std::sqrt(2.0 * (site.block() + 1)) : 1.0;
}

StreamStepInput Siamese::streams_of(const Streams& s) const {
  StreamStepInput in = on_x(s, x_[static_cast<size_t>(s.site.k)]);
  in.y = s.s[1];
  in.a = depth_scale(s.site);  // of the sub-layer whose output is pending
  in.joined = s.stats.defined();
  return in;
}

Read Siamese::read(Streams s, const Site& site, const Modulation& m) const {
  const size_t k = static_cast<size_t>(site.k);
  StreamStepInput in = streams_of(s);
  in.norm_x = x_[k];
  in.norm_y = y_[k];
  in.norm_in = input_[k];
  in.a_next = depth_scale(site);
  if (hybrid_ && site.attention()) in.c1 = c1_[static_cast<size_t>(site.block())];
  const StreamStepOutput out = step(in, s, m);
  return {out.z, {{out.x, out.y}, {}, site, out.stats}, out.activated};
}

at::Tensor Siamese::finish(Streams s) const {
  StreamStepInput in = streams_of(s);
  in.norm_x = end_x_;
  in.norm_y = end_y_;
  in.norm_in = end_;
  return step(in, s).z;
}

Streams Siamese::apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const {
  const at::Tensor scaled = rows(r, row_scale);
  s.s[0] = add(s.s[0], scaled * depth_scale(site));
  s.s[1] = add(s.s[1], scaled);
  return s;
}

std::unique_ptr<Scheme> make_siamese(const SchemeContext& c) { return std::make_unique<Siamese>(c, false); }

}  // namespace siamese
