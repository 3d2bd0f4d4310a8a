// `siamese::stream_step`: schema, Meta, autograd, and the C++ interface. Normed values are rebuilt in the backward pass
// from the streams, so the operator stores nothing but them and a few numbers a row.
#include "ops/stream_step.h"

#include "ops/column_sums.h"
#include "ops/gemm.h"
#include "ops/gemm_swiglu.h"
#include "ops/step_call.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

/// The numbers of a call and the places of its defined tensors, apart from the tensors, which autograd carries.
struct Shape {
  double a, eps, a_next;
  int64_t flags;
  at::ScalarType dtype;
  bool swiglu;                  // of the product too
  Turn turn;                    // of the product
  std::vector<int64_t> places;  // of the tensors handed over; those past kStepTensors are weight and bias

  StepCall call(at::ArrayRef<Tensor> tensors) const {
    StepCall c;
    c.a = a, c.eps = eps, c.a_next = a_next, c.flags = flags, c.dtype = dtype;
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i] < kStepTensors) c.t[static_cast<size_t>(places[i])] = tensors[i];
    return c;
  }
};
constexpr int64_t kWeight = kStepTensors, kBias = kStepTensors + 1;

class StreamStepFunction : public torch::autograd::Function<StreamStepFunction> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* ctx, const Shape& shape, at::TensorList tensors) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const StepCall call = shape.call(tensors);
    StepResults out = call_step(call);
    Tensor weight, bias;
    for (size_t i = 0; i < shape.places.size(); ++i) {
      if (shape.places[i] == kWeight) weight = tensors[i];
      if (shape.places[i] == kBias) bias = tensors[i];
    }
    // With statistics the backward pass starts from x̃ and y'; r is needed only where it is normed or gated itself.
    const bool accelerated = out[kStats].defined();
    variable_list saved(call.t.begin(), call.t.end());
    Tensor x_tilde, y_new;
    if (accelerated) {
      const bool out_is_x_tilde = out[kXOut].defined() && (!call.on(kNormX) || call.on(kDefer));
      if (call.has(kX)) x_tilde = out[kXRaw].defined() ? out[kXRaw] : out_is_x_tilde ? out[kXOut] : call[kX];
      if (call.has(kY)) y_new = out[kYOut].defined() ? out[kYOut] : call[kY];
      saved[kX] = saved[kY] = saved[kXStats] = Tensor();
      if (!call.on(kNormR) && !call.has(kGate)) saved[kR] = Tensor();
    }
    for (const Tensor& t : {x_tilde, y_new, out[kStats], weight}) saved.push_back(t);
    ctx->save_for_backward(saved);
    ctx->saved_data["a"] = shape.a;
    ctx->saved_data["eps"] = shape.eps;
    ctx->saved_data["a_next"] = shape.a_next;
    ctx->saved_data["flags"] = shape.flags;
    ctx->saved_data["dtype"] = static_cast<int64_t>(shape.dtype);
    ctx->saved_data["places"] = shape.places;
    ctx->saved_data["has_r"] = call.has(kR);
    ctx->set_materialize_grads(false);
    Tensor activated;
    if (weight.defined() && shape.swiglu && !bias.defined()) {
      std::tie(out[kZ], activated) = gemm_project_swiglu(out[kZ], weight);
    } else if (weight.defined() && shape.turn.cos.defined()) {
      out[kZ] = gemm_project_turned(out[kZ], weight, shape.turn);
    } else if (weight.defined()) {
      out[kZ] = gemm_project(out[kZ], weight, bias);
    }
    variable_list constants;  // kept for the backward pass, no function of the inputs to others
    for (const StepResult i : {kXRaw, kStats})
      if (out[i].defined()) constants.push_back(out[i]);
    if (activated.defined()) constants.push_back(activated);
    if (!constants.empty()) ctx->mark_non_differentiable(constants);
    variable_list result{out[kZ]};
    for (const StepResult i : {kXOut, kYOut, kXRaw, kStats})
      result.push_back(out[i].defined() ? out[i] : at::empty({0}, call.stream().options()));
    if (activated.defined()) result.push_back(activated);
    return result;
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list g) {
    const variable_list s = ctx->get_saved_variables();
    StepCall call;
    std::copy(s.begin(), s.begin() + kStepTensors, call.t.begin());
    call.a = ctx->saved_data["a"].toDouble();
    call.eps = ctx->saved_data["eps"].toDouble();
    call.a_next = ctx->saved_data["a_next"].toDouble();
    call.flags = ctx->saved_data["flags"].toInt();
    call.dtype = static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt());
    const std::vector<int64_t> places = ctx->saved_data["places"].toIntVector();
    const Tensor x_tilde = s[kStepTensors], y_new = s[kStepTensors + 1], weight = s[kStepTensors + 3];
    StepGradients grads{g[0], g[1], g[2], x_tilde, y_new, s[kStepTensors + 2], false};
    if (grads.stats.defined()) {  // stand-ins for the shapes of what was not kept
      if (x_tilde.defined()) call.t[kX] = x_tilde;
      if (y_new.defined()) call.t[kY] = y_new;
      if (!call.has(kR) && ctx->saved_data["has_r"].toBool())
        call.t[kR] = call.stream().scalar_type() == call.dtype
                         ? call.stream()
                         : at::empty_like(call.stream(), call.stream().options().dtype(call.dtype));
    }
    Tensor flat;  // gradient of the product [rows, out]
    if (weight.defined() && g[0].defined()) {
      flat = g[0].reshape({-1, g[0].size(-1)});
      std::vector<int64_t> shape = g[0].sizes().vec();
      shape.back() = weight.size(1);
      grads.z = gemm(flat, weight, false, false).view(shape);
      grads.want_z = true;
    }
    const StepBackward result = call_step_backward(call, grads);
    variable_list out(1 + places.size());  // the numbers have no gradient
    for (size_t i = 0; i < places.size(); ++i) {
      Tensor& to = out[1 + i];
      if (places[i] == kRowScale || places[i] >= kXStats) to = Tensor();
      if (places[i] < kRowScale || places[i] == kShift || places[i] == kScale)
        to = result[static_cast<size_t>(places[i])];
      if (places[i] == kWeight && flat.defined())
        to = gemm(flat, result[kStepTensors].reshape({-1, weight.size(1)}), true, false);
      if (places[i] == kBias && flat.defined()) to = column_sums(flat);
    }
    return out;
  }
};

variable_list apply(const StepCall& call, const Tensor& weight, const Tensor& bias, bool swiglu, const Turn& turn) {
  Shape shape{call.a, call.eps, call.a_next, call.flags, call.dtype, swiglu, turn, {}};
  if (call.stream().is_cuda() && at::GradMode::is_enabled()) shape.flags |= kKeep;
  std::vector<Tensor> tensors;
  auto add = [&](const Tensor& t, int64_t place) {
    if (!t.defined()) return;
    tensors.push_back(t);
    shape.places.push_back(place);
  };
  for (int64_t i = 0; i < kStepTensors; ++i) add(call.t[static_cast<size_t>(i)], i);
  add(weight, kWeight);
  add(bias, kBias);
  return StreamStepFunction::apply(shape, at::TensorList(tensors));
}

StepResults forward_autograd(const StepCall& call) {
  const variable_list out = apply(call, {}, {}, false, Turn());
  // A traced graph calls again with the flags it saw below autograd, and then wants all that was kept.
  return {out[kZ], out[kXOut], out[kYOut], call.new_raw() ? out[kXRaw] : Tensor(),
          call.new_stats() ? out[kStats] : Tensor()};
}

StepResults forward_meta(const StepCall& call) {
  StepResults out = allocate_step(call);
  const Tensor& s = call.stream();
  if (call.new_raw()) out[kXRaw] = at::empty_like(s, s.options(), at::MemoryFormat::Contiguous);
  if (call.new_stats())
    out[kStats] = at::empty_symint({6, s.sym_numel() / s.sym_size(-1)}, s.options().dtype(at::kFloat));
  return out;
}

StepBackward backward_meta(const StepCall& call, const StepGradients& g) {
  StepBackward out;
  for (size_t i = 0; i < kStepTensors; ++i)
    if (call.t[i].defined() && i != kRowScale && i < kXStats)
      out[i] = at::empty_like(call.t[i], call.t[i].options(), at::MemoryFormat::Contiguous);
  if (call.r_has_stream_gradient()) out[kR] = Tensor();
  const Tensor& s = call.stream();
  if (g.want_z) out[kStepTensors] = at::empty_like(s, s.options().dtype(call.dtype), at::MemoryFormat::Contiguous);
  return out;
}

constexpr const char* kStepSchema =
    "Tensor? x, Tensor? y, Tensor? r=None, Tensor? gain_x=None, Tensor? bias_x=None, Tensor? gain_y=None, "
    "Tensor? bias_y=None, Tensor? gain_in=None, Tensor? bias_in=None, Tensor? c1=None, Tensor? gain_r=None, "
    "Tensor? bias_r=None, Tensor? gate=None, Tensor? row_scale=None, Tensor? shift=None, Tensor? scale=None, "
    "Tensor? x_stats=None, Tensor? gain_before=None, Tensor? bias_before=None, float a=1.0, float eps=1e-5, "
    "int flags=4, ScalarType dtype=float, float a_next=0.0";

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  const std::string forward = std::string("stream_step(") + kStepSchema +
                              ") -> (Tensor z, Tensor x_out, Tensor y_out, Tensor x_raw, Tensor stats)";
  const std::string backward = std::string("stream_step_backward(") + kStepSchema +
                               ", Tensor? g_z=None, Tensor? g_x_out=None, Tensor? g_y_out=None, Tensor? saved_x=None, "
                               "Tensor? saved_y=None, Tensor? stats=None, bool want_z=False) -> Tensor[]";
  m.def(forward.c_str());
  m.def(backward.c_str());
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("stream_step", torch::CppFunction::makeFromBoxedFunction<&boxed_step<forward_meta>>());
  m.impl("stream_step_backward", torch::CppFunction::makeFromBoxedFunction<&boxed_step_backward<backward_meta>>());
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) {
  m.impl("stream_step", torch::CppFunction::makeFromBoxedFunction<&boxed_step<forward_autograd>>());
}

StreamStepOutput stream_step(const StreamStepInput& in) {
  StepCall call;
  call.t = {in.x,
            in.y,
            in.r,
            in.norm_x.gain,
            in.norm_x.bias,
            in.norm_y.gain,
            in.norm_y.bias,
            in.norm_in.gain,
            in.norm_in.bias,
            in.c1,
            in.norm_r.gain,
            in.norm_r.bias,
            in.gate,
            in.row_scale,
            in.shift,
            in.scale,
            in.pending_stats,
            in.pending.gain,
            in.pending.bias};
  if (!in.pending_stats.defined()) call.t[kGainBefore] = call.t[kBiasBefore] = Tensor();
  const Norm* any = &in.norm_y;
  for (const Norm* n : {&in.norm_y, &in.norm_x, &in.norm_in, &in.norm_r, &in.pending})
    if (n->on && !any->on) any = n;
  const auto bit = [](bool on, StepFlag flag) { return on ? static_cast<int64_t>(flag) : 0; };
  call.flags = bit(any->kind == NormKind::layer, kLayer) | bit(in.norm_x.on, kNormX) | bit(in.norm_y.on, kNormY) |
               bit(in.norm_in.on, kNormIn) | bit(in.norm_r.on, kNormR) | bit(!in.read_y, kSkipY) |
               bit(in.defer, kDefer) | bit(in.joined, kJoined);
  call.a = in.a;
  call.a_next = in.defer ? in.a_next : 0;
  call.eps = any->eps;
  call.dtype = in.dtype;
  call.check();
  const variable_list o = apply(call, in.weight, in.bias, in.swiglu, in.turn);
  StreamStepOutput out{o[kZ], in.x, in.y, {}, o.size() > kStepResults ? o[kStepResults] : Tensor()};
  if (in.defer) out.stats = o[kStats];
  if (call.new_x()) {
    out.x = o[kXOut];
  } else if (call.z_is_x()) {
    out.x = o[kZ];
  }
  if (call.new_y()) out.y = o[kYOut];
  return out;
}

}  // namespace siamese
