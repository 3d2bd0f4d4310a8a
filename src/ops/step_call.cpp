#include "ops/step_call.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace siamese {
namespace {

constexpr size_t kStepArguments = kStepTensors + 5, kGradientArguments = 7;

at::Tensor tensor_of(const c10::IValue& v) { return v.isNone() ? at::Tensor() : v.toTensor(); }
c10::IValue value_of(const at::Tensor& t) { return t.defined() ? c10::IValue(t) : c10::IValue(); }

void push_step(torch::jit::Stack& stack, const StepCall& call) {
  for (const at::Tensor& t : call.t) stack.push_back(value_of(t));
  stack.emplace_back(call.a);
  stack.emplace_back(call.eps);
  stack.emplace_back(call.flags);
  stack.emplace_back(static_cast<int64_t>(call.dtype));
  stack.emplace_back(call.a_next);
}

}  // namespace

void StepCall::check() const {
  TORCH_CHECK(stream().defined() && stream().dim() >= 1,
              "[stream_step] needs a stream x or y with at least 1 dimension");
  const auto sizes = stream().sym_sizes();
  const c10::SymInt d = sizes.back();
  if (both()) {
    TORCH_CHECK(t[kX].sym_sizes() == t[kY].sym_sizes(), "[stream_step] x is ", t[kX].sym_sizes(), " but y is ",
                t[kY].sym_sizes());
    TORCH_CHECK(t[kX].scalar_type() == t[kY].scalar_type(), "[stream_step] x is ", t[kX].scalar_type(), " but y is ",
                t[kY].scalar_type());
  }
  if (has(kR)) {
    TORCH_CHECK(t[kR].sym_sizes() == sizes, "[stream_step] r is ", t[kR].sym_sizes(), " but the stream is ", sizes);
    TORCH_CHECK(t[kR].scalar_type() == dtype, "[stream_step] r is ", t[kR].scalar_type(), " but the values are ",
                dtype);
  }
  for (const StepTensor i :
       {kGainX, kBiasX, kGainY, kBiasY, kGainIn, kBiasIn, kC1, kGainR, kBiasR, kGainBefore, kBiasBefore}) {
    if (!has(i)) continue;
    TORCH_CHECK(t[i].dim() == 1 && t[i].sym_size(0) == d, "[stream_step] a gain must have shape [", d, "] but has ",
                t[i].sym_sizes());
    TORCH_CHECK(t[i].scalar_type() == dtype, "[stream_step] a gain is ", t[i].scalar_type(), " but the values are ",
                dtype);
  }
  for (const StepTensor i : {kGate, kShift, kScale}) {
    if (!has(i)) continue;
    TORCH_CHECK(t[i].dim() == 2 && t[i].sym_size(0) == sizes[0] && t[i].sym_size(1) == d && t[i].scalar_type() == dtype,
                "[stream_step] gate, shift and scale must be [", sizes[0], ", ", d, "] of type ", dtype, " but one is ",
                t[i].sym_sizes(), " of type ", t[i].scalar_type());
  }
  TORCH_CHECK(!has(kRowScale) || (t[kRowScale].dim() == 1 && t[kRowScale].sym_size(0) == sizes[0]),
              "[stream_step] the row scale must be [", sizes[0], "] but is ", t[kRowScale].sym_sizes());
  TORCH_CHECK(!has(kXStats) || (has(kX) && t[kXStats].scalar_type() == at::kFloat && t[kXStats].is_contiguous() &&
                                t[kXStats].sym_numel() * d == stream().sym_numel() * 6),
              "[stream_step] x_stats must be what an earlier step returned for x");
  for (const at::Tensor& each : t)
    TORCH_CHECK(!each.defined() || each.device() == stream().device(), "[stream_step] tensors lie on ", each.device(),
                " and ", stream().device());
  TORCH_CHECK(!has(kC1) || !on(kNormX), "[stream_step] c1 and a norm on x exclude each other");
  TORCH_CHECK(!on(kNormR) || !has(kX), "[stream_step] a norm on r goes with y alone");
  TORCH_CHECK(!on(kDefer) || (on(kNormX) && has(kX)), "[stream_step] only a norm on x can be left pending");
  TORCH_CHECK(!(on(kSkipY) && !has(kX)), "[stream_step] z has to read something");
  TORCH_CHECK((!on(kJoined) && a_next == 0) || both(), "[stream_step] joined gradients are those of two streams");
  TORCH_CHECK(a_next == 0 || on(kDefer), "[stream_step] a_next is for a norm left pending");
}

StepCall pop_step(torch::jit::Stack& stack) {
  const auto args = torch::jit::last(stack, kStepArguments);
  StepCall call;
  for (size_t i = 0; i < kStepTensors; ++i) call.t[i] = tensor_of(args[i]);
  call.a = args[kStepTensors].toDouble();
  call.eps = args[kStepTensors + 1].toDouble();
  call.flags = args[kStepTensors + 2].toInt();
  call.dtype = args[kStepTensors + 3].toScalarType();
  call.a_next = args[kStepTensors + 4].toDouble();
  torch::jit::drop(stack, kStepArguments);
  return call;
}

StepGradients pop_gradients(torch::jit::Stack& stack) {
  const auto args = torch::jit::last(stack, kGradientArguments);
  StepGradients g{tensor_of(args[0]), tensor_of(args[1]), tensor_of(args[2]), tensor_of(args[3]),
                  tensor_of(args[4]), tensor_of(args[5]), args[6].toBool()};
  torch::jit::drop(stack, kGradientArguments);
  return g;
}

void push_results(torch::jit::Stack& stack, const StepResults& results, const at::Tensor& like) {
  for (const at::Tensor& t : results) stack.emplace_back(t.defined() ? t : at::empty({0}, like.options()));
}

void push_gradients(torch::jit::Stack& stack, const StepBackward& results, const at::Tensor& like) {
  c10::List<at::Tensor> list;
  for (const at::Tensor& t : results) list.push_back(t.defined() ? t : at::empty({0}, like.options()));
  stack.emplace_back(std::move(list));
}

StepResults call_step(const StepCall& call) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::stream_step", "");
  torch::jit::Stack stack;
  push_step(stack, call);
  op.callBoxed(stack);
  StepResults out;
  // Empty tensors stand for absent ones on the way through the dispatcher.
  const bool there[] = {true, call.new_x(), call.new_y(), call.new_raw(), call.new_stats()};
  for (size_t i = 0; i < kStepResults; ++i)
    if (there[i]) out[i] = stack[i].toTensor();
  return out;
}

StepBackward call_step_backward(const StepCall& call, const StepGradients& g) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::stream_step_backward", "");
  torch::jit::Stack stack;
  push_step(stack, call);
  for (const at::Tensor* t : {&g.z, &g.x_out, &g.y_out, &g.saved_x, &g.saved_y, &g.stats})
    stack.push_back(value_of(*t));
  stack.emplace_back(g.want_z);
  op.callBoxed(stack);
  const std::vector<at::Tensor> list = stack[0].toTensorVector();
  StepBackward out;
  for (size_t i = 0; i < kStepTensors; ++i)
    if (call.t[i].defined() && i != kRowScale && i < kXStats) out[i] = list[i];
  if (g.want_z) out[kStepTensors] = list[kStepTensors];
  if (call.r_has_stream_gradient()) out[kR] = out[call.has(kY) ? kY : kX];
  return out;
}

StepResults allocate_step(const StepCall& call) {
  const at::Tensor& s = call.stream();
  StepResults out;
  out[kZ] = at::empty_like(s, s.options().dtype(call.dtype), at::MemoryFormat::Contiguous);
  if (call.new_x()) out[kXOut] = at::empty_like(s, s.options(), at::MemoryFormat::Contiguous);
  if (call.new_y()) out[kYOut] = at::empty_like(s, s.options(), at::MemoryFormat::Contiguous);
  return out;
}

}  // namespace siamese
