// Hyper-connections: h = Σ A_m[i]·H_i; H = A_rᵀ H + B ⊗ F(N(h)); end N(Σ H_i).
// The maps are taken from the streams at the read. Until the write, s = {mixed streams, B}, or {H, A, B} where the
// fused step will mix; afterwards s = {H}.
#include "residual/hyper.h"

#include <ATen/ATen.h>

namespace siamese {

HyperConnections::HyperConnections(const SchemeContext& c)
    : Scheme(c), n_(c.config.streams), norm_(c.norms("norm", true)), end_(c.end_norm("ln_f")) {}

Streams HyperConnections::start(const at::Tensor& embedding) const {
  const at::Tensor e = embedding.to(stream_dtype_);
  return {{e.unsqueeze(-2).expand({e.size(0), e.size(1), n_, e.size(2)})}, {}, {}, {}};
}

HyperStepInput HyperConnections::step_of(const Streams& s) const {
  HyperStepInput in;
  in.h = s.s[0];
  if (s.s.size() == 3) in.residual = s.s[1], in.write = s.s[2];
  in.dtype = dtype_;
  const Update& update = s.pending;
  if (!update.r.defined()) return in;
  in.r = rows(update.gate.defined() ? update.r * update.gate.unsqueeze(1) : update.r, update.row_scale);
  return in;
}

Read HyperConnections::read(Streams s, const Site& site, const Modulation& m) const {
  const Norm& norm = norm_[static_cast<size_t>(site.k)];
  if (may_step(s)) {
    HyperStepInput step = step_of(s);
    step.norm = norm;
    describe_maps(step, site);
    if (hyper_step_fusable(step)) {
      const HyperStepOutput out = hyper_step(step);
      return modulated(out.z, m, {{out.h, out.residual, out.write}, {}, site, {}});
    }
  }
  s = settle(std::move(s));
  const at::Tensor h = s.s[0];  // H
  const HyperMaps maps = this->maps(h, site);
  const at::Tensor in = (h * maps.read.unsqueeze(-1)).sum(-2).to(stream_dtype_);
  const at::Tensor mixed = at::matmul(maps.residual.to(exact()), h.to(exact())).to(stream_dtype_);
  return modulated(normed(in, norm), m, {{mixed, maps.write}, {}, site, {}});
}

Streams HyperConnections::apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const {
  if (s.s.size() == 3) {
    s.pending = {r, {}, row_scale};
    return {{hyper_step(step_of(s)).h}, {}, site, {}};
  }
  const at::Tensor written = rows(r, row_scale).unsqueeze(-2) * s.s[1].unsqueeze(-1);
  s.s = {add(s.s[0], written)};
  return s;
}

at::Tensor HyperConnections::finish(Streams s) const {
  if (may_step(s)) {
    HyperStepInput step = step_of(s);
    step.norm = end_;
    if (hyper_step_fusable(step)) return hyper_step(step).z;
  }
  return normed(settle(std::move(s)).s[0].sum(-2), end_);
}

std::string hyper_name(const Site& site, const std::string& name) {
  return SchemeContext::block_name(site, (site.attention() ? "attn_hc." : "ff_hc.") + name);
}

at::Tensor add_hyper(const SchemeContext& c, const Site& site, const std::string& name, at::IntArrayRef shape,
                     const InitSpec& init) {
  return c.params.add("transformer." + hyper_name(site, name), shape, ParamKind::other, init);
}

}  // namespace siamese
