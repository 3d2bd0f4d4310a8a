// What the CPU's kernels of `siamese::stream_step` do not know (norms on r, gates, adaLN, DropPath, z without y) by
// plain operations, and backward by their autograd. Norms left pending between two steps are the GPU's alone.
#include "ops/stream_step_cpu_plain.h"

#include <torch/csrc/autograd/autograd.h>

#include "ops/stream_step.h"

namespace siamese {
namespace {

using at::Tensor;

constexpr StepTensor kDifferentiable[] = {kX,      kY,  kR,     kGainX, kBiasX, kGainY, kBiasY, kGainIn,
                                          kBiasIn, kC1, kGainR, kBiasR, kGate,  kShift, kScale};

StreamStepInput input_of(const StepCall& c) {
  auto norm = [&](StepFlag flag, StepTensor gain) {
    return Norm{c.on(flag), c.on(kLayer) ? NormKind::layer : NormKind::rms, c.eps, c[gain],
                c.t[static_cast<size_t>(gain) + 1]};
  };
  StreamStepInput in;
  in.x = c[kX], in.y = c[kY], in.r = c[kR], in.a = c.a, in.dtype = c.dtype, in.c1 = c[kC1];
  in.norm_x = norm(kNormX, kGainX), in.norm_y = norm(kNormY, kGainY), in.norm_in = norm(kNormIn, kGainIn);
  in.norm_r = norm(kNormR, kGainR);
  in.gate = c[kGate], in.row_scale = c[kRowScale], in.scale = c[kScale], in.shift = c[kShift];
  in.read_y = !c.on(kSkipY);
  return in;
}

}  // namespace

StepResults stream_step_forward_plain(const StepCall& call) {
  const StreamStepOutput out = stream_step_plain(input_of(call));
  StepResults result;
  // Results must share memory neither with each other nor with what was handed in.
  result[kZ] = out.z.is_same(call[kX]) || out.z.is_same(call[kY]) ? out.z.clone() : out.z;
  if (call.new_x()) result[kXOut] = out.x.is_same(out.z) || out.x.is_same(call[kX]) ? out.x.clone() : out.x;
  if (call.new_y()) result[kYOut] = out.y.is_same(out.z) ? out.y.clone() : out.y;
  return result;
}

StepBackward stream_step_backward_plain(const StepCall& call, const StepGradients& g) {
  const c10::InferenceMode recorded(false);  // also where the caller is below autograd
  StepCall leaf = call;
  std::vector<Tensor> inputs;
  std::vector<StepTensor> places;
  for (const StepTensor i : kDifferentiable) {
    if (!call.has(i)) continue;
    inputs.push_back(leaf.t[i] = call[i].detach().requires_grad_(true));
    places.push_back(i);
  }
  const StreamStepOutput out = stream_step_plain(input_of(leaf));
  std::vector<Tensor> outputs, gradients;
  auto add = [&](const Tensor& output, const Tensor& gradient) {
    if (!gradient.defined() || !output.defined()) return;  // traced graphs hand over empty gradients of absent results
    TORCH_CHECK(output.requires_grad(), "[stream_step_backward] nothing was recorded");
    outputs.push_back(output), gradients.push_back(gradient);
  };
  add(out.z, g.z), add(out.x, g.x_out), add(out.y, g.y_out);
  const std::vector<Tensor> found =
      outputs.empty() ? std::vector<Tensor>(inputs.size())
                      : torch::autograd::grad(outputs, inputs, gradients, false, false, /*allow_unused=*/true);
  StepBackward result;
  // A sum hands its gradient on as it is: results must not share memory with it, nor with each other.
  auto own = [&](const Tensor& t) {
    const Tensor dense = t.detach().contiguous();
    bool shared = false;
    for (const Tensor& other : gradients) shared = shared || dense.is_alias_of(other);
    for (const Tensor& other : inputs) shared = shared || dense.is_alias_of(other);
    for (const Tensor& other : result) shared = shared || (other.defined() && dense.is_alias_of(other));
    return shared ? dense.clone() : dense;
  };
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == kR && call.r_has_stream_gradient()) continue;
    result[places[i]] = found[i].defined() ? own(found[i]) : at::zeros_like(call[places[i]]);
  }
  if (g.want_z) result[kStepTensors] = own(out.z);
  return result;
}

}  // namespace siamese
