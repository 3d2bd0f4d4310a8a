// The residual steps of `siamese bench --ops`, called below autograd so that nothing but their kernels is timed.
#include "cli/bench_ops.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include "ops/gpu_tools.h"
#include "ops/hyper_step_call.h"
#include "ops/step_call.h"
#include "ops/step_forms.h"
#include "train/device.h"
#include "util/error.h"

namespace siamese::cli {
namespace {

using at::Tensor;

/// Width, tokens, samples, norm and whether it has adaLN: a step of lm-400m, lm-1.2b, deit-s, dit-b2, and dit-s2, which
/// is as wide as deit-s.
struct Size {
  int64_t d, tokens, samples;
  bool layer, adaln;
};
const Size kSizes[] = {{1024, 32768, 16, false, false},
                       {2048, 16384, 4, false, false},
                       {384, 50432, 256, true, false},
                       {768, 65536, 256, true, true},
                       {384, 65536, 256, true, true}};

/// A form (ops/step_forms.h) as a training step in the middle of a stack has it: norms on x are left pending, and where
/// `joined`, y's gradient travels with x's.
struct TimedForm {
  const char* form;
  bool joined = false, both_norms = false;  // both: not only with the norm of the models of a width
  const char* label = nullptr;              // where the form's name is another scheme's
};
const TimedForm kTimed[] = {{"pre", false, true},
                            {"post"},
                            {"siamese", true, true},
                            {"siamese_no_input_norm", true},
                            {"hybrid", true, false, "siamese_hybrid attention"},
                            {"reordered"},
                            {"sandwich"},
                            {"resi_dual"},
                            {"pre_adaln"},
                            {"pre_drop_path"},
                            {"siamese_adaln", true}};

const StepForm& form_named(const std::string& name) {
  for (const auto* forms : {&step_forms(), &extended_forms()})
    for (const StepForm& form : *forms)
      if (form.name == name) return form;
  fail("there is no stream step called {}", name);
}

/// The tensors of the calls on one size: streams, update and the gradients of the results, all the same to every form.
struct StepSets {
  std::vector<Tensor> x, y, r, g_z, g_x, g_y;
  Tensor gain, by_sample, stats;

  StepSets(const OpTimer& t, const Size& s) {
    for (auto* sets : {&x, &y, &r, &g_z, &g_x, &g_y}) *sets = noise_sets(t, {s.samples, s.tokens / s.samples, s.d});
    gain = at::ones({s.d}, x[0].options());
    by_sample = at::ones({s.samples, s.d}, x[0].options());
    stats = at::ones({6, s.tokens}, x[0].options().dtype(at::kFloat));
  }
  StepCall call(const StepForm& form, bool layer, bool joined, size_t set) const {
    StepCall c;
    if (form.x) c.t[kX] = x[set], c.t[kXStats] = stats, c.t[kGainBefore] = gain;
    if (form.x && layer) c.t[kBiasBefore] = gain;
    if (form.y) c.t[kY] = y[set];
    if (form.r) c.t[kR] = r[set];
    auto norm = [&](bool on, StepFlag flag, StepTensor place) {
      if (!on) return;
      c.flags |= flag;
      // adaLN's norm, the last one, has no gain of its own.
      if (form.modulation && place == (form.norm_in ? kGainIn : kGainY)) return;
      c.t[place] = gain;
      if (layer) c.t[static_cast<size_t>(place) + 1] = gain;  // a bias follows its gain
    };
    norm(form.norm_x, kNormX, kGainX), norm(form.norm_y, kNormY, kGainY), norm(form.norm_in, kNormIn, kGainIn);
    norm(form.norm_r, kNormR, kGainR);
    if (form.c1) c.t[kC1] = gain;
    if (form.gate) c.t[kGate] = by_sample;
    if (form.modulation) c.t[kShift] = c.t[kScale] = by_sample;
    if (form.row_scale) c.t[kRowScale] = by_sample.select(1, 0).to(at::kFloat);
    // One stream takes r as it is; of two, x takes it scaled.
    c.a = form.x && form.y ? 0.5 : 1.0, c.eps = 1e-5;
    const bool defers = form.x && form.norm_x;
    const std::pair<bool, StepFlag> flags[] = {
        {true, kKeep}, {layer, kLayer}, {form.skip_y, kSkipY}, {defers, kDefer}, {joined, kJoined}};
    for (const auto& [on, flag] : flags)
      if (on) c.flags |= flag;
    if (joined && defers) c.a_next = 0.5;
    c.dtype = at::kBFloat16;
    return c;
  }
};

void bench_form(OpTimer& timer, const StepSets& sets, const TimedForm& timed, bool layer, const std::string& size) {
  const StepForm& form = form_named(timed.form);
  const std::string op = fmt::format("stream_step {} {}", timed.label != nullptr ? timed.label : form.name,
                                     layer ? "LayerNorm" : "RMSNorm");
  if (!timer.wants(op)) return;
  std::vector<StepCall> calls;
  for (size_t set = 0; set < kOpSets; ++set) calls.push_back(sets.call(form, layer, timed.joined, set));
  const StepResults out = call_step(calls[0]);
  timer.row(op, size, "forward",
            bytes_of_rows({calls[0][kX], calls[0][kY], calls[0][kR], out[kZ], out[kXOut], out[kYOut], out[kXRaw]}),
            [&](int set) { call_step(calls[static_cast<size_t>(set)]); });

  std::vector<StepGradients> grads;
  for (size_t set = 0; set < kOpSets; ++set) {
    StepGradients g;
    g.z = sets.g_z[set];
    if (form.x && !calls[0].z_is_x()) g.x_out = sets.g_x[set];
    if (form.y) g.y_out = sets.g_y[set];
    g.saved_x = calls[set][kX], g.saved_y = calls[set][kY], g.stats = out[kStats];
    calls[set].t[kXStats] = Tensor();
    grads.push_back(g);
  }
  for (const bool want_z : {false, true}) {
    for (StepGradients& g : grads) g.want_z = want_z;
    const StepBackward back = call_step_backward(calls[0], grads[0]);
    std::vector<Tensor> moved(back.begin(), back.end());
    moved.insert(moved.end(), {grads[0].z, grads[0].x_out, grads[0].y_out, grads[0].saved_x});
    if (form.norm_y || (want_z && !form.skip_y)) moved.push_back(grads[0].saved_y);  // otherwise y' tells nothing
    if (form.norm_r || form.gate) moved.push_back(calls[0][kR]);
    timer.row(op, size, want_z ? "backward+z" : "backward", bytes_of_rows(moved),
              [&](int set) { call_step_backward(calls[static_cast<size_t>(set)], grads[static_cast<size_t>(set)]); });
  }
}

HyperOutputs hyper_forward(SIAMESE_HYPER_ARGS) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::hyper_step", "").typed<decltype(hyper_forward)>();
  return op.call(SIAMESE_HYPER_NAMES);
}
std::vector<Tensor> hyper_backward(SIAMESE_HYPER_BACKWARD_ARGS) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::hyper_step_backward", "")
                             .typed<decltype(hyper_backward)>();
  return op.call(SIAMESE_HYPER_BACKWARD_NAMES);
}

/// Parameters of the maps at sizes of their noise, not zero as they begin: nothing is to be skipped.
std::vector<Tensor> hyper_maps(HyperKind kind, int64_t n, int64_t d, const at::TensorOptions& options) {
  auto make = [&](at::IntArrayRef shape) { return 0.01 * at::randn(shape, options); };
  if (kind == HyperKind::fixed) return {make({n}), make({n, n}), make({n})};
  if (kind == HyperKind::dynamic)
    return {make({n}), make({n, n}), make({n}), make({d}), make({d, n}), make({d}), make({}), make({})};
  return {make({n * d, n}), make({n * d, n}), make({n * d, n * n}), make({n}), make({n}), make({n, n}), make({}),
          make({}),         make({})};
}

void bench_hyper(OpTimer& timer, const char* name, HyperKind kind, int64_t n, const Size& s) {
  const std::string op = fmt::format("hyper_step {} n={}", name, n), size = fmt::format("{} x {}", s.d, s.tokens);
  if (!timer.wants(op)) return;
  const auto h = noise_sets(timer, {s.tokens, n, s.d}), r = noise_sets(timer, {s.tokens, s.d}),
             g_h = noise_sets(timer, {s.tokens, n, s.d}), g_z = noise_sets(timer, {s.tokens, s.d});
  const auto options = h[0].options();
  const OptionalTensor map_gain =
      kind == HyperKind::fixed ? OptionalTensor() : at::ones({kind == HyperKind::mhc ? n * s.d : s.d}, options);
  const Tensor gain = at::ones({s.d}, options), residual = at::rand({s.tokens, n, n}, options.dtype(at::kFloat)),
               write = at::rand({s.tokens, n}, residual.options());
  const std::vector<Tensor> maps = hyper_maps(kind, n, s.d, options);
  const auto number = static_cast<int64_t>(kind);
  auto forward = [&](int set) {
    const auto i = static_cast<size_t>(set);
    return hyper_forward(h[i], residual, write, r[i], gain, map_gain, maps, number, 1e-5, 1e-5, true);
  };
  const auto [z, h_out, residual_out, write_out, saved] = forward(0);
  timer.row(op, size, "forward", bytes_of_rows({h[0], r[0], z, h_out}), [&](int set) { forward(set); });
  auto backward = [&, state = saved](int set) {
    const auto i = static_cast<size_t>(set);
    return hyper_backward(g_z[i], g_h[i], write, h[i], state, write, r[i], gain, map_gain, maps, number, true);
  };
  std::vector<Tensor> moved = backward(0);
  moved.resize(kHyperGradMaps);
  moved.insert(moved.end(), {h[0], r[0], g_h[0], g_z[0]});
  timer.row(op, size, "backward", bytes_of_rows(moved), [&](int set) { backward(set); });
}

}  // namespace

std::vector<Tensor> noise_sets(const OpTimer& timer, at::IntArrayRef shape) {
  std::vector<Tensor> sets;
  for (int i = 0; i < kOpSets; ++i)
    sets.push_back(at::randn(shape, at::TensorOptions().device(timer.device).dtype(at::kBFloat16)));
  return sets;
}

void bench_stream_steps(OpTimer& timer) {
  for (const Size& s : kSizes) {
    const StepSets sets(timer, s);
    for (const TimedForm& timed : kTimed)
      for (const bool layer : {false, true}) {
        const StepForm& form = form_named(timed.form);
        const bool served = form.gate ? s.adaln : !form.row_scale || s.layer;
        if (layer == s.layer ? served : timed.both_norms)
          bench_form(timer, sets, timed, layer, fmt::format("{} x {}", s.d, s.tokens));
      }
  }
}

void bench_hyper_steps(OpTimer& timer) {
  bench_hyper(timer, "hc_static", HyperKind::fixed, 2, kSizes[0]);
  bench_hyper(timer, "hc_dynamic", HyperKind::dynamic, 2, kSizes[0]);
  bench_hyper(timer, "mhc", HyperKind::mhc, 4, kSizes[0]);
}

void bench_ops(const std::string& device, bool json, const std::vector<std::string>& only) {
  const at::Device on = select_device(device);
  if (!on.is_cuda() || gpu_tools() == nullptr)
    fail("--ops times the GPU's operators, but there is no GPU here; build/ops_bench (make bench) times the CPU's");
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  OpTimer timer(on, json, only);
  bench_stream_steps(timer);
  bench_hyper_steps(timer);
  bench_layers(timer);
  bench_attention_norms(timer);
  bench_ends(timer);
  bench_products(timer);
  bench_columns_and_dropout(timer);
  bench_experts(timer);
  if (const std::string table = timer.table(); !table.empty())
    fmt::print("{}, cold caches\n{}", gpu_tools()->device_name(), table);
  timer.require_all();
}

}  // namespace siamese::cli
