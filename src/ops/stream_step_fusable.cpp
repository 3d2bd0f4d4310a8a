// Which calls the fused stream step covers, on which device.
#include "ops/kernel_types.h"
#include "ops/stream_step.h"

namespace siamese {

using at::Tensor;

namespace {

bool has_cuda_kernels() {
  static const bool there = has_cuda_kernel("siamese::stream_step");
  return there;
}

}  // namespace

bool stream_step_defers(const Tensor& stream) {
  const auto type = stream.scalar_type();
  return stream.is_cuda() && (type == at::kFloat || type == at::kBFloat16) && has_cuda_kernels();
}

bool stream_step_fusable(const StreamStepInput& in) {
  const Tensor& s = in.x.defined() ? in.x : in.y;
  const bool extended = in.norm_r.on || in.gate.defined() || in.row_scale.defined() || in.scale.defined() ||
                        in.shift.defined() || !in.read_y || in.weight.defined();
  const bool fast = stream_step_defers(s) && s.size(-1) <= 16384;
  if (!fast && (!s.device().is_cpu() || extended)) return false;
  if (in.r.defined() && in.r.scalar_type() != in.dtype) return false;
  if (in.y.defined() && in.y.scalar_type() != s.scalar_type()) return false;
  if (in.c1.defined() && (in.norm_x.on || in.c1.scalar_type() != in.dtype)) return false;
  if (in.norm_r.on && in.x.defined()) return false;
  for (const Tensor* t : {&in.gate, &in.scale, &in.shift})
    if (t->defined() && t->scalar_type() != in.dtype) return false;
  const Norm* first = nullptr;  // one call has one kind of norm and one epsilon
  for (const Norm* n : {&in.norm_x, &in.norm_y, &in.norm_in, &in.norm_r, &in.pending}) {
    if (!n->on) continue;
    if (first == nullptr) first = n;
    if (n->kind != first->kind || n->eps != first->eps) return false;
    if (fast && n->kind == NormKind::rms && n->bias.defined()) return false;
    for (const Tensor* t : {&n->gain, &n->bias})
      if (t->defined() && t->scalar_type() != in.dtype) return false;
  }
  const auto type = s.scalar_type();
  return (type == in.dtype && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16)) ||
         (type == at::kFloat && in.dtype == at::kBFloat16);
}

}  // namespace siamese
