// Hyper-connections: h = Σ A_m[i]·H_i; H = A_rᵀ H + B ⊗ F(N(h)); end N(Σ H_i).
// The maps are taken from the streams at the read. Until the write, s = {mixed streams, B}; afterwards s = {H}.
#include "residual/hyper.h"

#include <ATen/ATen.h>

namespace siamese {

HyperConnections::HyperConnections(const SchemeContext& c)
    : Scheme(c), n_(c.config.streams), norm_(c.norms("norm", true)), end_(c.end_norm("ln_f")) {}

Streams HyperConnections::start(const at::Tensor& embedding) const {
  const at::Tensor e = embedding.to(stream_dtype_);
  return {{e.unsqueeze(-2).expand({e.size(0), e.size(1), n_, e.size(2)})}, {}, {}, {}};
}

Read HyperConnections::read(Streams s, const Site& site, const Modulation& m) const {
  s = settle(std::move(s));
  const at::Tensor h = s.s[0];  // H
  const HyperMaps maps = this->maps(h, site);
  const at::Tensor in = (h * maps.read.unsqueeze(-1)).sum(-2).to(stream_dtype_);
  const at::Tensor mixed = at::matmul(maps.residual.to(exact()), h.to(exact())).to(stream_dtype_);
  return {modulate(normed(in, norm_[static_cast<size_t>(site.k)]), m), {{mixed, maps.write}, {}, site, {}}};
}

Streams HyperConnections::apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site&) const {
  const at::Tensor written = rows(r, row_scale).unsqueeze(-2) * s.s[1].unsqueeze(-1);
  s.s = {add(s.s[0], written)};
  return s;
}

at::Tensor HyperConnections::finish(Streams s) const { return normed(settle(std::move(s)).s[0].sum(-2), end_); }

std::string hyper_name(const Site& site, const std::string& name) {
  return SchemeContext::block_name(site, (site.attention() ? "attn_hc." : "ff_hc.") + name);
}

at::Tensor add_hyper(const SchemeContext& c, const Site& site, const std::string& name, at::IntArrayRef shape,
                     const InitSpec& init) {
  return c.params.add("transformer." + hyper_name(site, name), shape, ParamKind::other, init);
}

}  // namespace siamese
