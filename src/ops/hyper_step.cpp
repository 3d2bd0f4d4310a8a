// Registration of `siamese::hyper_step`: checks, autograd, Meta. Of its results a step keeps H' and `saved`; h, the
// maps and all normed values are rebuilt in the backward pass.
#include "ops/hyper_step.h"

#include "ops/hyper_step_call.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

std::vector<std::vector<int64_t>> map_shapes(const HyperSizes& s) {
  const int64_t n = s.n, d = s.d;
  switch (s.kind) {
    case HyperKind::fixed:
      return {{n}, {n, n}, {n}};
    case HyperKind::dynamic:
      return {{n}, {n, n}, {n}, {d}, {d, n}, {d}, {}, {}};
    case HyperKind::mhc:
      return {{n * d, n}, {n * d, n}, {n * d, n * n}, {n}, {n}, {n, n}, {}, {}, {}};
    default:
      return {};
  }
}

OptionalTensor optional(const Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }

}  // namespace

HyperSizes hyper_sizes(const Tensor& h, int64_t kind) {
  TORCH_CHECK(h.dim() >= 2, "[hyper_step] the streams must be [..., n, d] but are ", h.sizes());
  TORCH_CHECK(kind >= 0 && kind <= static_cast<int64_t>(HyperKind::mhc), "[hyper_step] there is no kind ", kind);
  HyperSizes s;
  s.kind = static_cast<HyperKind>(kind);
  s.lead.assign(h.sizes().begin(), h.sizes().end() - 2);
  s.tokens = c10::multiply_integers(s.lead);
  s.n = h.size(-2), s.d = h.size(-1);
  s.exact = h.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return s;
}

HyperSizes check_hyper_step(SIAMESE_HYPER_ARGS) {
  (void)eps, (void)map_eps, (void)norm;
  const HyperSizes s = hyper_sizes(h, kind);
  auto check = [&](const char* name, const Tensor& t, at::IntArrayRef shape, at::ScalarType type) {
    if (!t.defined()) return;
    TORCH_CHECK(t.sizes() == shape, "[hyper_step] ", name, " must be ", shape, " but is ", t.sizes());
    TORCH_CHECK(t.scalar_type() == type, "[hyper_step] ", name, " must be ", type, " but is ", t.scalar_type());
    TORCH_CHECK(t.device() == h.device(), "[hyper_step] ", name, " is on another device than the streams");
  };
  const at::ScalarType type = h.scalar_type();
  check("residual", given(residual), s.shape({s.n, s.n}), s.exact);
  check("write", given(write), s.shape({s.n}), s.exact);
  check("r", given(r), s.shape({s.d}), type);
  check("gain", given(gain), {s.d}, type);
  check("map_gain", given(map_gain), {s.kind == HyperKind::mhc ? s.n * s.d : s.d}, type);
  TORCH_CHECK(!given(r).defined() || given(write).defined(), "[hyper_step] r needs the map it is written with");
  const auto shapes = map_shapes(s);
  TORCH_CHECK(maps.size() == shapes.size(), "[hyper_step] this kind has ", shapes.size(), " map parameters but got ",
              maps.size());
  for (size_t i = 0; i < shapes.size(); ++i) check("a map parameter", maps[i], shapes[i], type);
  return s;
}

std::vector<Tensor> without_gaps(std::vector<Tensor> gradients, const Tensor& h) {
  for (Tensor& t : gradients)
    if (!t.defined()) t = at::empty({0}, h.options());
  return gradients;
}

HyperOutputs allocate_hyper_step(const Tensor& h, const HyperSizes& s) {
  const bool mapped = s.kind != HyperKind::sum;
  auto small = [&](const std::vector<int64_t>& shape) { return at::empty(shape, h.options().dtype(s.exact)); };
  return {at::empty(s.shape({s.d}), h.options()), at::empty(h.sizes(), h.options()),
          small(mapped ? s.shape({s.n, s.n}) : std::vector<int64_t>{0}),
          small(mapped ? s.shape({s.n}) : std::vector<int64_t>{0}), small(s.shape({hyper_saved_width(s.kind, s.n)}))};
}

namespace {

HyperOutputs forward_meta(SIAMESE_HYPER_ARGS) { return allocate_hyper_step(h, check_hyper_step(SIAMESE_HYPER_NAMES)); }

std::vector<Tensor> backward_meta(SIAMESE_HYPER_BACKWARD_ARGS) {
  (void)g_z, (void)g_h, (void)g_write, (void)saved, (void)kind, (void)norm;
  auto like = [](const OptionalTensor& t) { return t && t->defined() ? at::empty_like(*t) : Tensor(); };
  std::vector<Tensor> result{at::empty_like(h), like(write), like(r), like(gain), like(map_gain)};
  for (const Tensor& map : maps) result.push_back(at::empty_like(map));
  return without_gaps(std::move(result), h);
}

HyperOutputs call(SIAMESE_HYPER_ARGS) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::hyper_step", "").typed<decltype(call)>();
  return op.call(SIAMESE_HYPER_NAMES);
}
std::vector<Tensor> call_backward(SIAMESE_HYPER_BACKWARD_ARGS) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::hyper_step_backward", "")
                             .typed<decltype(call_backward)>();
  return op.call(SIAMESE_HYPER_BACKWARD_NAMES);
}

class HyperStepFunction : public torch::autograd::Function<HyperStepFunction> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* ctx, SIAMESE_HYPER_ARGS) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [z, h_out, residual_out, write_out, saved] = call(SIAMESE_HYPER_NAMES);
    variable_list kept{h_out, saved, given(write), given(r), given(gain), given(map_gain)};
    kept.insert(kept.end(), maps.begin(), maps.end());
    ctx->save_for_backward(kept);
    ctx->saved_data["kind"] = kind;
    ctx->saved_data["norm"] = norm;
    ctx->set_materialize_grads(false);
    variable_list constants{residual_out, saved};
    if (write_out.numel() == 0) constants.push_back(write_out);
    ctx->mark_non_differentiable(constants);
    return {z, h_out, residual_out, write_out, saved};
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list g) {
    const variable_list s = ctx->get_saved_variables();
    const variable_list maps(s.begin() + 6, s.end());
    variable_list grads = call_backward(optional(g[0]), optional(g[1]), optional(g[3]), s[0], s[1], optional(s[2]),
                                        optional(s[3]), optional(s[4]), optional(s[5]), maps,
                                        ctx->saved_data["kind"].toInt(), ctx->saved_data["norm"].toBool());
    // A is a constant in the graph (its gradient was taken where it was made), so are the four numbers at the end.
    variable_list result{grads[kHyperGradH], Tensor()};
    for (size_t i = kHyperGradWrite; i < kHyperGradMaps; ++i)  // write, r, gain, map_gain
      result.push_back(s[1 + i].defined() ? grads[i] : Tensor());
    result.insert(result.end(), grads.begin() + kHyperGradMaps, grads.end());
    result.resize(result.size() + 4);
    return result;
  }
};

HyperOutputs forward_autograd(SIAMESE_HYPER_ARGS) {
  const variable_list out = HyperStepFunction::apply(SIAMESE_HYPER_NAMES);
  return {out[0], out[1], out[2], out[3], out[4]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "hyper_step(Tensor h, Tensor? residual, Tensor? write, Tensor? r, Tensor? gain, Tensor? map_gain, Tensor[] maps, "
      "int kind, float eps, float map_eps, bool norm) -> (Tensor z, Tensor h_out, Tensor residual_out, Tensor "
      "write_out, Tensor saved)");
  m.def(
      "hyper_step_backward(Tensor? g_z, Tensor? g_h, Tensor? g_write, Tensor h, Tensor saved, Tensor? write, Tensor? "
      "r, Tensor? gain, Tensor? map_gain, Tensor[] maps, int kind, bool norm) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("hyper_step", forward_meta);
  m.impl("hyper_step_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("hyper_step", forward_autograd); }

bool hyper_step_has_kernels(const Tensor& h) {
  const at::ScalarType type = h.scalar_type();
  const int64_t n = h.size(-2), d = h.size(-1);
  return (type == at::kBFloat16 || type == at::kFloat) && (n == 2 || n == 4) && d % 8 == 0 && d >= 8 && d <= 2048;
}

bool hyper_step_fusable(const HyperStepInput& in) {
  for (const Norm* norm : {&in.norm, &in.map_norm})
    if (norm->on && (norm->kind != NormKind::rms || norm->bias.defined())) return false;
  // Else parameters would be rounded to the streams' type.
  if (c10::elementSize(in.h.scalar_type()) < c10::elementSize(in.dtype)) return false;
  return in.h.device().is_cpu() || (in.h.device().is_cuda() && hyper_step_has_kernels(in.h));
}

HyperStepOutput hyper_step(const HyperStepInput& in) {
  // The operator has one type; where streams are kept wider than values, the rest is widened for it.
  const at::ScalarType type = in.h.scalar_type();
  auto as_streams = [&](const Tensor& t) { return t.defined() ? OptionalTensor(t.to(type)) : std::nullopt; };
  variable_list maps;
  for (const Tensor& map : in.maps) maps.push_back(map.to(type));
  const auto [z, h, residual, write, saved] =
      call(in.h, optional(in.residual), optional(in.write), as_streams(in.r), as_streams(in.norm.gain),
           as_streams(in.map_norm.gain), maps, static_cast<int64_t>(in.kind), in.norm.eps, in.map_norm.eps, in.norm.on);
  HyperStepOutput out{z.to(in.dtype), h, {}, {}};
  if (in.kind != HyperKind::sum) out.residual = residual, out.write = write;
  return out;
}

}  // namespace siamese
