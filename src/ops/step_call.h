// One call of `siamese::stream_step`: the description that the registered operator, its backward pass and every backend
// share. kernels/cuda/stream_step.h has the formulas.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <array>
#include <vector>

namespace siamese {

// clang-format off
/// The tensors of a call in the order of the schema; absent ones are undefined.
enum StepTensor {
  kX, kY, kR,                                                   // [..., d]
  kGainX, kBiasX, kGainY, kBiasY, kGainIn, kBiasIn, kC1,        // [d]
  kGainR, kBiasR,                                               // [d]
  kGate, kRowScale, kShift, kScale,                             // [B, d], row scale [B]; B is the first size of x
  kXStats, kGainBefore, kBiasBefore,                            // the norm pending on x: statistics, gain, bias
  kStepTensors
};

enum StepFlag : int64_t {
  kLayer = 1, kNormX = 2, kNormY = 4, kNormIn = 8, kNormR = 16,
  kSkipY = 32,  // z does not read y
  kDefer = 64,  // the x handed on is x̃ with N_x pending; by convention its gradient is that of X = N_x(x̃)
  kKeep = 128,  // x_raw and stats are returned for the backward pass: set by autograd on a GPU, whose kernels need them
  kJoined = 256,  // by convention the gradient handed back for y is that of y + a·X₀: what r gets as well
};
// clang-format on

struct StepCall {
  std::array<at::Tensor, kStepTensors> t;
  double a = 1, eps = 0;
  int64_t flags = 0;
  double a_next = 0;  // the gradient of y' comes with a_next times that of x added: the next step's kJoined
  at::ScalarType dtype = at::kFloat;  // of values

  const at::Tensor& operator[](StepTensor i) const { return t[i]; }
  bool has(StepTensor i) const { return t[i].defined(); }
  bool on(StepFlag flag) const { return (flags & flag) != 0; }
  const at::Tensor& stream() const { return has(kX) ? t[kX] : t[kY]; }
  bool both() const { return has(kX) && has(kY); }
  /// What only the GPU's training steps have: norms left pending, results kept and gradients joined for the next step.
  bool between_steps() const {
    return has(kXStats) || has(kGainBefore) || has(kBiasBefore) || on(kDefer) || on(kKeep) || on(kJoined) ||
           a_next != 0;
  }
  /// Anything the CPU kernels do not know.
  bool extended() const {
    for (const StepTensor i : {kGainR, kBiasR, kGate, kRowScale, kShift, kScale})
      if (has(i)) return true;
    return on(kNormR) || on(kSkipY) || between_steps();
  }
  /// `post` reads its own stream: z and X are one tensor.
  bool z_is_x() const {
    return has(kX) && !has(kY) && on(kNormX) && !on(kNormIn) && !on(kDefer) && !has(kScale) && !has(kShift) &&
           stream().scalar_type() == dtype;
  }
  bool new_x() const { return has(kX) && (has(kR) || on(kNormX) || has(kXStats)) && !z_is_x(); }
  bool new_y() const { return has(kY) && has(kR); }
  /// x̃ is returned beside X: X takes its place in the stream, and x alone does not tell it.
  bool new_raw() const { return on(kKeep) && on(kNormX) && !on(kDefer) && (has(kR) || has(kXStats)); }
  bool new_stats() const { return on(kKeep) || on(kDefer); }
  /// With one stream, or y's gradient joined with x's, and nothing on r, r's gradient is the stream's, and the operator
  /// does not return it a second time: results of an operator must not share memory.
  bool r_has_stream_gradient() const {
    return has(kR) && (both() ? on(kJoined) : has(kY) || a == 1.0) && !has(kGate) && !has(kRowScale) && !on(kNormR) &&
           stream().scalar_type() == dtype;
  }

  /// Sizes and types are what the kernels, which read raw memory, expect; throws otherwise.
  void check() const;
};

/// What a forward pass returns, in the schema's order; tensors that do not exist are empty (a schema cannot return
/// optionals). x_raw is x̃ where the backward pass needs it and x_out does not hold it; without statistics the backward
/// pass starts from x, y and r.
enum StepResult { kZ, kXOut, kYOut, kXRaw, kStats, kStepResults };
using StepResults = std::array<at::Tensor, kStepResults>;

/// What a backward pass gets beside the call. `saved_x` and `saved_y` are x̃ and y' where `stats` exists.
struct StepGradients {
  at::Tensor z, x_out, y_out;  // undefined: zero
  at::Tensor saved_x, saved_y, stats;
  bool want_z = false;
};
/// Gradients by StepTensor, undefined where absent; the last one is z, rebuilt.
using StepBackward = std::array<at::Tensor, kStepTensors + 1>;

/// Through the dispatcher. The backward pass gives r's gradient in any case.
StepResults call_step(const StepCall& call);
StepBackward call_step_backward(const StepCall& call, const StepGradients& g);

/// For backends: boxed operators over plain functions of the description.
template <StepResults (*f)(const StepCall&)>
void boxed_step(const c10::OperatorHandle&, torch::jit::Stack* stack);
template <StepBackward (*f)(const StepCall&, const StepGradients&)>
void boxed_step_backward(const c10::OperatorHandle&, torch::jit::Stack* stack);

StepCall pop_step(torch::jit::Stack& stack);
StepGradients pop_gradients(torch::jit::Stack& stack);
void push_results(torch::jit::Stack& stack, const StepResults& results, const at::Tensor& like);
void push_gradients(torch::jit::Stack& stack, const StepBackward& results, const at::Tensor& like);

template <StepResults (*f)(const StepCall&)>
void boxed_step(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const StepCall call = pop_step(*stack);
  call.check();
  push_results(*stack, f(call), call.stream());
}
template <StepBackward (*f)(const StepCall&, const StepGradients&)>
void boxed_step_backward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const StepGradients g = pop_gradients(*stack);
  const StepCall call = pop_step(*stack);
  push_gradients(*stack, f(call, g), call.stream());
}

/// z, X, y' as they will be written (undefined where absent) on any device.
StepResults allocate_step(const StepCall& call);

}  // namespace siamese
