#include "residual/scheme.h"

#include <ATen/ATen.h>

#include "ops/gemm_swiglu.h"
#include "util/error.h"

namespace siamese {

std::vector<at::Tensor> Streams::flatten() const {
  std::vector<at::Tensor> tensors = s;
  for (const at::Tensor& t : {pending.r, pending.gate, pending.row_scale, stats})
    if (t.defined()) tensors.push_back(t);
  return tensors;
}

Streams Streams::unflatten(const Streams& like, const std::vector<at::Tensor>& tensors) {
  Streams out = like;
  size_t i = 0;
  for (at::Tensor& t : out.s) t = tensors.at(i++);
  for (at::Tensor* t : {&out.pending.r, &out.pending.gate, &out.pending.row_scale, &out.stats})
    if (t->defined()) *t = tensors.at(i++);
  return out;
}

Streams Streams::skeleton() const {
  return unflatten(*this, std::vector<at::Tensor>(flatten().size(), at::empty({0})));
}

Norm SchemeContext::norm(const std::string& name, int64_t width) const {
  Norm n{true, config.norm == "layer" ? NormKind::layer : NormKind::rms, config.norm_eps, {}, {}};
  const int64_t d = width > 0 ? width : config.d_model;
  if (config.norm_affine)
    n.gain = params.add("transformer." + name + ".weight", {d}, ParamKind::norm, {InitSpec::constant, 1.0});
  if (config.norm_affine && config.norm_bias)
    n.bias = params.add("transformer." + name + ".bias", {d}, ParamKind::norm, {InitSpec::constant, 0.0});
  return n;
}

Norm SchemeContext::input_norm(const std::string& name) const {
  if (input_affine) return norm(name);
  return {true, NormKind::layer, config.norm_eps, {}, {}};
}

std::vector<Norm> SchemeContext::norms(const std::string& suffix, bool input) const {
  std::vector<Norm> all;
  for (int k = 0; k < 2 * blocks(); ++k) {
    const std::string name = block_name({k}, (k % 2 == 0 ? "attn_" : "ff_") + suffix);
    all.push_back(input ? input_norm(name) : norm(name));
  }
  return all;
}

std::string SchemeContext::block_name(const Site& site, const std::string& suffix) {
  return fmt::format("blocks.{}.{}", site.block(), suffix);
}

Scheme::Scheme(const SchemeContext& context)
    : config_(context.config),
      blocks_(context.blocks()),
      fused_(context.config.fused),
      dtype_(context.params.dtype()),
      stream_dtype_(context.stream_dtype) {}

Streams Scheme::start(const at::Tensor& embedding) const {
  Streams streams;
  streams.s = {embedding.to(stream_dtype_)};
  return streams;
}

Streams Scheme::write(Streams streams, Update update, const Site& site) const {
  if (streams.pending.r.defined()) streams = settle(std::move(streams));
  streams.pending = std::move(update);
  streams.site = site;
  return streams;
}

at::Tensor Scheme::rows(const at::Tensor& r, const at::Tensor& row_scale) {
  if (!row_scale.defined()) return r;
  std::vector<int64_t> shape(static_cast<size_t>(r.dim()), 1);
  shape[0] = row_scale.size(0);
  return r * row_scale.to(r.scalar_type()).view(shape);
}

Streams Scheme::settle(Streams streams) const {
  if (!streams.pending.r.defined()) return streams;
  // The plain write would take the raw stream for the normed one. Models read between two writes.
  TORCH_CHECK(!streams.stats.defined(),
              "[scheme] an update cannot be written apart from a read while a norm is pending");
  const Update update = std::exchange(streams.pending, {});
  const at::Tensor r = update.gate.defined() ? update.r * update.gate.unsqueeze(1) : update.r;
  return apply(std::move(streams), r, update.row_scale, streams.site);
}

at::Tensor Scheme::product(const at::Tensor& z, const Modulation& m) {
  if (!m.turn.cos.defined()) return (*m.into)(z);
  TORCH_CHECK(!m.into->bias.defined(), "[scheme] a projection with a bias cannot come turned");
  return project_turned(z, m.into->weight, m.turn);
}

Read Scheme::modulated(const at::Tensor& z, const Modulation& m, Streams streams) const {
  at::Tensor out = z;
  if (m.scale.defined()) out = out * (1 + m.scale.unsqueeze(1));
  if (m.shift.defined()) out = out + m.shift.unsqueeze(1);
  if (m.into == nullptr) return {out, std::move(streams)};
  if (!m.swiglu || !fused_ || !out.is_cuda() || m.into->bias.defined()) return {product(out, m), std::move(streams)};
  const auto [p, h] = gemm_project_swiglu(out, m.into->weight);
  return {p, std::move(streams), h.detach()};
}

StreamStepInput Scheme::on_x(const Streams& streams, const Norm& last) {
  StreamStepInput in;
  in.x = streams.s[0];
  if (streams.stats.defined()) {
    in.pending = last;
    in.pending_stats = streams.stats;
  }
  return in;
}

StreamStepOutput Scheme::step(StreamStepInput in, const Streams& streams, const Modulation& m) const {
  const Update& update = streams.pending;
  in.dtype = dtype_;
  in.r = update.r;
  StreamStepInput whole = in;
  if (in.r.defined()) whole.gate = update.gate, whole.row_scale = update.row_scale;
  whole.scale = m.scale, whole.shift = m.shift;
  const bool rebuild = m.into != nullptr && !m.keep;
  if (rebuild) whole.weight = m.into->weight, whole.bias = m.into->bias, whole.swiglu = m.swiglu, whole.turn = m.turn;
  whole.defer = in.x.defined() && in.norm_x.on && stream_step_defers(in.x);
  if (fused_ && stream_step_fusable(whole)) {
    StreamStepOutput out = stream_step(whole);
    if (m.into != nullptr && !rebuild) out.z = product(out.z, m);
    return out;
  }
  if (in.r.defined()) {
    if (update.gate.defined()) in.r = in.r * update.gate.unsqueeze(1);
    in.r = rows(normed(in.r, in.norm_r), update.row_scale);
    in.norm_r = {};
  }
  // A stream that is not read needs no kernel that knows of it: the update is added, the rest is a step on x alone.
  const at::Tensor apart = std::exchange(in.read_y, true) ? at::Tensor() : std::exchange(in.y, at::Tensor());
  StreamStepOutput out = fused_ && stream_step_fusable(in) ? stream_step(in) : stream_step_plain(in);
  if (apart.defined()) out.y = in.r.defined() ? add(apart, in.r) : apart;
  Read read = modulated(out.z, m, {});
  out.z = read.input;
  out.activated = read.activated;
  return out;
}

}  // namespace siamese
