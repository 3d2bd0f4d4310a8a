// The stream step by tiles (kernels/cuda/step_tile.h), as training calls it: streams in bf16, N_x left pending from
// step to step. Held to formulas in fp64 that start from the streams as they were rounded, so that nothing but fp32
// sums and one rounding of each result lies between: a row left out of a column sum would show.
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "gpu.h"
#include "ops/random.h"
#include "ops/step_call.h"
#include "ops/stream_step.h"
#include "util/philox.h"

namespace siamese {
namespace {

enum class Form { pre, siamese, hybrid, sum, post, resi_dual, sandwich, reordered };  // sum: siamese without N_in

struct TileCase {
  Form form;
  bool layer;
  int64_t rows, d;
  bool pending;                      // the norm on x of the step before; y's gradients are joined with x's
  int64_t samples = 1;               // of `rows` rows together
  bool adaln = false, drop = false;  // gate, scale and shift of a sample; DropPath
  bool first = false, end = false;   // nothing to write; no gradient but z's
};

constexpr double kEps = 1e-5;

class GpuStepTiles : public Gpu {
 protected:
  /// |got - want| ≤ one rounding to bf16 + noise.
  static void near(const at::Tensor& got, const at::Tensor& want, double noise, const std::string& what) {
    const at::Tensor a = got.to(at::kDouble), b = want.detach();
    const at::Tensor excess = (a - b).abs() - (b.abs() * 0x1.02p-8 + noise);
    EXPECT_LE(excess.max().item<double>(), 0.0) << what << ": differs by " << (a - b).abs().max().item<double>();
  }
  static StepResults forward(const StepCall& call) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return call_step(call);
  }
  static StepBackward backward(const StepCall& call, const StepGradients& g) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return call_step_backward(call, g);
  }
  static void same(const StepBackward& a, const StepBackward& b, size_t count) {
    for (size_t i = 0; i < count; ++i)
      EXPECT_TRUE(a[i].defined() == b[i].defined() && (!a[i].defined() || at::equal(a[i], b[i]))) << "tensor " << i;
  }

  void check(const TileCase& c) {
    static const char* const names[] = {"pre",  "siamese",   "hybrid",   "sum",
                                        "post", "resi_dual", "sandwich", "reordered"};
    SCOPED_TRACE(fmt::format("{} {}, {} rows of {}, {} samples{}{}{}{}{}", names[static_cast<int>(c.form)],
                             c.layer ? "layer" : "rms", c.rows, c.d, c.samples, c.pending ? ", pending" : "",
                             c.adaln ? ", adaLN" : "", c.drop ? ", DropPath" : "", c.first ? ", first" : "",
                             c.end ? ", end" : ""));
    const bool norm_r = c.form == Form::sandwich || c.form == Form::reordered, dual = c.form == Form::resi_dual;
    const bool has_x = c.form != Form::pre && !norm_r, has_y = c.form != Form::post, norm_in = c.form == Form::siamese;
    const bool norm_x = has_x && c.form != Form::hybrid, norm_y = has_y && !dual && c.form != Form::reordered;
    int64_t number = 1000 * c.d + 20 * c.rows;
    auto normal = [&](at::IntArrayRef shape) {  // made on the GPU: there are many
      at::Tensor t = at::empty(shape, at::TensorOptions().device(gpu_).dtype(at::kFloat));
      truncated_normal_(t, 1.0, 0.0, {20260101, number++, kTestSite, 0});
      return t;
    };
    auto noise = [&](at::IntArrayRef shape, double mean, double std) {
      return (normal(shape) * std + mean).to(at::kBFloat16);
    };
    const std::vector<int64_t> shape{c.samples, c.rows / c.samples, c.d};
    StepCall call;
    call.eps = kEps, call.a = has_x ? 0.5 : 1.0, call.dtype = at::kBFloat16;
    call.flags = kKeep;
    for (const auto& [on, flags] : std::vector<std::pair<bool, int64_t>>{{c.layer, kLayer},
                                                                         {norm_x, kNormX | kDefer},
                                                                         {norm_y, kNormY},
                                                                         {norm_in, kNormIn},
                                                                         {norm_r, kNormR},
                                                                         {dual, kSkipY}})
      if (on) call.flags |= flags;
    auto norm = [&](StepTensor gain, StepTensor bias) {
      call.t[gain] = noise({c.d}, 1.0, 0.3);
      if (c.layer) call.t[bias] = noise({c.d}, 0.0, 0.3);
    };
    if (has_y) call.t[kY] = noise(shape, -0.2, 2.0);
    if (!c.first) call.t[kR] = noise(shape, 0.1, 1.0);
    if (has_x) call.t[kX] = noise(shape, 0.3, 1.0);
    if (norm_y && (has_x || !c.adaln)) norm(kGainY, kBiasY);  // adaLN's norm has no gain of its own
    if (norm_x) norm(kGainX, kBiasX);
    if (norm_r) norm(kGainR, kBiasR);
    if (norm_in && !c.adaln) norm(kGainIn, kBiasIn);
    if (c.adaln) {
      if (!c.first) call.t[kGate] = noise({c.samples, c.d}, 0.2, 0.5);
      call.t[kScale] = noise({c.samples, c.d}, 0.1, 0.5), call.t[kShift] = noise({c.samples, c.d}, 0.0, 0.5);
    }
    if (c.drop && !c.first) call.t[kRowScale] = (normal({c.samples}) > -0.5).to(at::kFloat) * 1.25;
    if (has_x && !norm_x) call.t[kC1] = noise({c.d}, 1.0, 0.3);
    if (c.pending) {
      norm(kGainBefore, kBiasBefore);
      call.t[kXStats] = normal({6, c.rows}) * 0.1 + 0.5;
      if (has_y) call.flags |= kJoined;
      if (has_y && norm_x && !c.end) call.a_next = 0.75;
    }
    auto exact_norm = [&](const at::Tensor& v, const at::Tensor& gain, const at::Tensor& bias) {
      return norm_plain(v, {true, c.layer ? NormKind::layer : NormKind::rms, kEps, gain, bias}, at::kDouble);
    };

    const StepResults out = forward(call), again = forward(call);
    for (const StepResult i : {kZ, kXOut, kYOut})
      EXPECT_TRUE(!out[i].defined() || at::equal(out[i], again[i])) << "result " << i;
    const int64_t statistics = c.layer ? 6 : 3;  // RMSNorm leaves the means' rows as they are
    EXPECT_TRUE(at::equal(out[kStats].slice(0, 0, statistics), again[kStats].slice(0, 0, statistics)));
    // What r is multiplied with before it is written.
    at::Tensor by = at::ones({c.samples, 1, 1}, call.stream().options().dtype(at::kDouble));
    if (call.has(kGate)) by = by * call[kGate].to(at::kDouble).unsqueeze(1);
    if (call.has(kRowScale)) by = by * call[kRowScale].to(at::kDouble).view({-1, 1, 1});
    const at::Tensor r =
        (c.first ? at::zeros(shape, by.options()) : call[kR].to(at::kDouble)).set_requires_grad(norm_r);
    torch::autograd::variable_list on_r{r};
    for (const StepTensor i : {kGainR, kBiasR})
      if (call.has(i)) on_r.push_back(call[i].to(at::kDouble).set_requires_grad(true));
    const at::Tensor w = by * (norm_r ? exact_norm(r, on_r[1], c.layer ? on_r[2] : at::Tensor()) : r);
    const at::Tensor y_new = !has_y ? at::Tensor() : c.first ? call[kY] : out[kYOut];
    const at::Tensor x_tilde = !has_x ? at::Tensor() : out[kXOut].defined() ? out[kXOut] : call[kX];
    if (has_y) near(y_new, call[kY].to(at::kDouble) + w, norm_r ? 5e-6 : 1e-6, "y'");
    if (has_x) {
      at::Tensor x = call[kX].to(at::kDouble);
      if (c.pending) {
        const at::Tensor stats = call[kXStats].to(at::kDouble).view({6, c.samples, -1, 1});
        if (c.layer) x = x - stats[3];
        x = x * stats[0] * call[kGainBefore].to(at::kDouble);
        if (c.layer) x = x + call[kBiasBefore].to(at::kDouble);
      }
      near(x_tilde, x + w * call.a, 1e-6, "x~");
    }

    StepGradients g;
    g.saved_y = y_new, g.stats = out[kStats], g.want_z = true;
    g.z = noise(shape, 0.0, 1.0);
    if (has_y && !c.end) g.y_out = noise(shape, 0.0, 1.0);
    if (has_x) g.saved_x = x_tilde;
    if (has_x && !c.end) g.x_out = noise(shape, 0.1, 1.0);
    const StepBackward got = backward(call, g);
    same(got, backward(call, g), kStepTensors + 1);
    g.want_z = false;
    same(got, backward(call, g), kStepTensors);

    // The same in fp64 from x̃ and y' on.
    torch::autograd::variable_list leaves;
    std::vector<StepTensor> places;
    auto leaf = [&](StepTensor i, const at::Tensor& t) {
      leaves.push_back(t.to(at::kDouble).set_requires_grad(true)), places.push_back(i);
      return leaves.back();
    };
    auto normed = [&](const at::Tensor& v, StepTensor gain, StepTensor bias) {
      const at::Tensor of_gain = call.has(gain) ? leaf(gain, call[gain]) : at::Tensor();
      return exact_norm(v, of_gain, call.has(bias) ? leaf(bias, call[bias]) : at::Tensor());
    };
    at::Tensor z, objective = at::zeros({}, by.options());
    if (has_y) {
      const at::Tensor y = leaf(kY, y_new);
      if (!dual) z = norm_y ? normed(y, kGainY, kBiasY) : y;
      at::Tensor to_y = c.end ? at::zeros_like(y) : g.y_out.to(at::kDouble);
      if (call.a_next != 0) to_y = to_y - call.a_next * g.x_out.to(at::kDouble);
      objective = objective + (y * to_y).sum();
    }
    if (has_x) {
      const at::Tensor raw = leaf(kX, x_tilde), x = norm_x ? normed(raw, kGainX, kBiasX) : raw;
      const at::Tensor part = norm_x ? x : x * leaf(kC1, call[kC1]);
      z = z.defined() ? z + part : part;
      if (!c.end) objective = objective + (x * g.x_out.to(at::kDouble)).sum();
    }
    if (norm_in) z = normed(z, kGainIn, kBiasIn);
    if (c.adaln) z = z * (1 + leaf(kScale, call[kScale]).unsqueeze(1)) + leaf(kShift, call[kShift]).unsqueeze(1);
    const auto want = torch::autograd::grad({objective + (z * g.z.to(at::kDouble)).sum()}, leaves);
    near(out[kZ], z, 2e-5, "z");
    near(got[kStepTensors], z, 2e-5, "z again");
    at::Tensor to_r = at::zeros(shape, by.options());
    for (size_t i = 0; i < want.size(); ++i)
      if (places[i] == kX || places[i] == kY) to_r = to_r + want[i] * (places[i] == kX ? call.a : 1.0);
    for (size_t i = 0; i < want.size(); ++i) {
      const bool column = places[i] != kX && places[i] != kY;
      near(got[places[i]], places[i] == kY && call.on(kJoined) ? to_r : want[i],
           column ? 1e-4 * std::sqrt(static_cast<double>(c.rows)) : 5e-5,
           fmt::format("gradient of tensor {}", static_cast<int>(places[i])));
    }
    if (c.first) return;
    if (norm_r) {
      const auto of_r = torch::autograd::grad({(w * to_r).sum()}, on_r);
      near(got[kR], of_r[0], 1e-4, "gradient of r");
      near(got[kGainR], of_r[1], 1e-4 * std::sqrt(static_cast<double>(c.rows)), "gradient of the gain on r");
      if (c.layer) near(got[kBiasR], of_r[2], 1e-4 * std::sqrt(static_cast<double>(c.rows)), "of the bias on r");
      return;
    }
    near(got[kR], to_r * by, 1e-4, "gradient of r");
    if (!c.adaln) return;
    at::Tensor of_gate = to_r * r;
    if (c.drop) of_gate = of_gate * call[kRowScale].to(at::kDouble).view({-1, 1, 1});
    near(got[kGate], of_gate.sum(1), 1e-4 * std::sqrt(static_cast<double>(c.rows)), "gradient of the gate");
  }
};

const std::vector<Form> kWithNormY = {Form::pre, Form::siamese, Form::hybrid, Form::sum};
const std::vector<Form> kOthers = {Form::post, Form::resi_dual, Form::sandwich, Form::reordered};

/// By width and forms, so that they can be shared among processes.
class GpuStepTilesOf : public GpuStepTiles, public testing::WithParamInterface<std::tuple<int64_t, bool>> {};

/// Rows: one; fewer than multiprocessors; no multiple of 2 or 4; a multiple; so many that every group's ring of tiles
/// goes round.
TEST_P(GpuStepTilesOf, EqualFormulas) {
  const auto [d, others] = GetParam();
  const int64_t most = 7'000'000 / d;
  for (const int64_t rows : {int64_t{1}, int64_t{12}, int64_t{131}, int64_t{402}, most, most + 3}) {
    if (under_sanitizer() && rows != 1 && rows != 402) continue;
    for (const Form form : others ? kOthers : kWithNormY)
      for (const bool layer : {false, true}) {
        if (under_sanitizer() && layer != (d < 1024)) continue;  // as in the models of this width
        check({form, layer, rows, d, false});
        if (form != Form::pre && form < Form::sandwich) check({form, layer, rows, d, true});
      }
  }
}
INSTANTIATE_TEST_SUITE_P(Width, GpuStepTilesOf,
                         testing::Combine(testing::Values(384, 768, 1024, 2048), testing::Bool()));

class GpuStepTilesBySamples : public GpuStepTiles, public testing::WithParamInterface<std::tuple<int64_t, bool>> {};

/// Samples of one row, of fewer rows than a block takes at once, of no even number; fewer and more than
/// multiprocessors; one that is cut in parts.
TEST_P(GpuStepTilesBySamples, EqualFormulas) {
  const auto [d, adaln] = GetParam();
  for (const auto& [samples, each] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 5}, {7, 64}, {200, 6}, {2, 2048}, {131, 64}, {300, 49}}) {
    if (under_sanitizer() && samples * each > 448) continue;
    for (const Form form : kWithNormY)
      for (const bool drop : {false, true}) {
        if (under_sanitizer() && drop != adaln) continue;
        check({form, true, samples * each, d, form != Form::pre, samples, adaln, drop});
        check({form, true, samples * each, d, false, samples, adaln, drop, true});
        check({form, true, samples * each, d, form != Form::pre, samples, adaln, drop, false, true});
        if (!adaln) check({form, false, samples * each, d, form != Form::pre, samples, adaln, drop});
      }
    for (const Form form : kOthers) {  // DropPath alone
      if (adaln || (under_sanitizer() && samples * each < 448)) continue;
      const bool pending = form < Form::sandwich;
      for (const bool layer : {false, true}) {
        if (under_sanitizer() && !layer) continue;
        check({form, layer, samples * each, d, pending, samples, false, true});
        check({form, layer, samples * each, d, pending, samples, false, true, false, true});
        if (pending) check({form, layer, samples * each, d, pending, samples, false, false, true});
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Width, GpuStepTilesBySamples,
                         testing::Combine(testing::Values(int64_t{384}, int64_t{768}), testing::Bool()));

}  // namespace
}  // namespace siamese
