// The plain path of the stream step: what the fused operator is tested against, and what runs where it does not apply.
#include "ops/stream_step.h"

#include "ops/linear.h"

namespace siamese {

at::Tensor norm_plain(const at::Tensor& x, const Norm& norm, at::ScalarType dtype) {
  if (!norm.on) return x.to(dtype);
  at::Tensor h = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  if (norm.kind == NormKind::layer) h = h - h.mean(-1, true);
  h = (h * at::rsqrt(h.square().mean(-1, true) + norm.eps)).to(dtype);
  if (norm.gain.defined()) h = h * norm.gain;
  if (norm.bias.defined()) h = h + norm.bias;
  return h;
}

StreamStepOutput stream_step_plain(const StreamStepInput& in) {
  StreamStepOutput out{{}, in.x, in.y, {}};
  TORCH_CHECK(!in.defer && !in.pending_stats.defined(), "[stream_step] the plain path leaves no norm pending");
  const at::Tensor& stream = in.x.defined() ? in.x : in.y;
  // [B, d] or [B] over the dimensions between the first and the last
  auto per_sample = [&](const at::Tensor& t) {
    std::vector<int64_t> shape(static_cast<size_t>(stream.dim()), 1);
    shape.front() = t.size(0);
    if (t.dim() == 2) shape.back() = t.size(1);
    return t.view(shape);
  };
  if (in.r.defined()) {
    at::Tensor w = in.gate.defined() ? in.r * per_sample(in.gate) : in.r;
    w = norm_plain(w, in.norm_r, w.scalar_type());
    if (in.row_scale.defined()) w = w * per_sample(in.row_scale).to(w.scalar_type());
    if (in.x.defined()) out.x = in.x + (in.a == 1.0 ? w : w * in.a).to(in.x.scalar_type());
    if (in.y.defined()) out.y = in.y + w.to(in.y.scalar_type());
  }
  at::Tensor u;
  if (in.x.defined()) {
    if (in.norm_x.on) {
      // X is both the new stream and a part of u: rounded once, to the type of z, then kept in the stream's type.
      u = norm_plain(out.x, in.norm_x, in.dtype);
      out.x = u.to(in.x.scalar_type());
    } else {
      u = in.c1.defined() ? out.x.to(in.dtype) * in.c1 : out.x.to(in.dtype);
    }
  }
  if (in.y.defined() && in.read_y) {
    const at::Tensor ny = norm_plain(out.y, in.norm_y, in.dtype);
    u = u.defined() ? u + ny : ny;
  }
  out.z = norm_plain(u, in.norm_in, in.dtype);
  if (in.scale.defined()) out.z = out.z * (1 + per_sample(in.scale));
  if (in.shift.defined()) out.z = out.z + per_sample(in.shift);
  if (in.weight.defined()) out.z = project(out.z, in.weight, in.bias);
  return out;
}

at::Tensor apply_norm(const at::Tensor& x, const Norm& norm, at::ScalarType dtype, bool fused) {
  StreamStepInput in;
  in.y = x;
  in.norm_y = norm;
  in.dtype = dtype;
  if (norm.on && fused && stream_step_fusable(in)) return stream_step(in).z;
  return norm_plain(x, norm, dtype);
}

}  // namespace siamese
