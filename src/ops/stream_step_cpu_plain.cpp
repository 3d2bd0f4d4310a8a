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

bool stream_step_pends(const StepCall& c) {
  return c.has(kXStats) || c.has(kGainBefore) || c.has(kBiasBefore) || c.on(kDefer) || c.on(kKeep) || c.on(kJoined) ||
         c.a_next != 0;
}

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
  const at::AutoGradMode with_gradients(true);
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
    if (!gradient.defined() || !output.defined() || !output.requires_grad()) return;
    outputs.push_back(output), gradients.push_back(gradient);
  };
  add(out.z, g.z), add(out.x, g.x_out), add(out.y, g.y_out);
  StepBackward result;
  const std::vector<Tensor> found =
      outputs.empty() ? std::vector<Tensor>(inputs.size())
                      : torch::autograd::grad(outputs, inputs, gradients, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == kR && call.r_has_stream_gradient()) continue;
    result[places[i]] = found[i].defined() ? found[i] : at::zeros_like(call[places[i]]);
  }
  if (g.want_z) result[kStepTensors] = out.z.detach();
  return result;
}

}  // namespace siamese
