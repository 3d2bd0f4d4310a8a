// One step of the hyper-connections in bf16 against formulas in fp64 that start from the streams as they were rounded,
// so that nothing but fp32 sums and one rounding of each result lies between: a token left out of a sum would show, on
// the CPU (test_hyper.cpp) and in every kernel of the GPU (test_gpu_hyper.cpp).
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include "hyper_cases.h"
#include "ops/gpu_tools.h"
#include "ops/hyper_step_call.h"
#include "ops/random.h"
#include "util/philox.h"

namespace siamese {

struct HyperStepCase {
  HyperKind kind;  // dynamic or mhc
  int64_t n, tokens, d;
  bool first = false;  // the streams coincide and nothing is written to them
  bool update = true;  // r is there, otherwise the streams are mixed alone
  bool gains = true;
};

class HyperStepCheck {
 public:
  HyperStepCheck(const HyperStepCase& c, at::Device device) : c_(c), device_(device), number_(1000 * c.d + c.tokens) {
    SCOPED_TRACE(fmt::format("{} of {} tokens of {} x {}{}{}{}", c.kind == HyperKind::mhc ? "mhc" : "dynamic", c.tokens,
                             c.n, c.d, c.first ? ", first" : "", c.update ? "" : ", no update",
                             c.gains ? "" : ", no gains"));
    HyperLeaves parameters({.kind = c.kind, .n = c.n, .tokens = 1, .d = c.d, .gains = c.gains});
    {
      const at::NoGradGuard no_grad;
      // What the read map makes of the streams stays away from 0, and γ_map w has no digit that bf16 must round.
      if (c.kind == HyperKind::dynamic) parameters.maps[1][0].fill_(1.0);
      if (c.gains) parameters.map_gain[1].copy_(at::exp2((2 * (parameters.map_gain[1] - 1)).round()));
    }
    HyperLeaves narrow = parameters.copy(device, at::kBFloat16), exact = parameters.copy(device, at::kDouble);
    forward(narrow, exact);
    if (c.kind == HyperKind::dynamic) backward(narrow, exact);
  }

 private:
  static constexpr double kEps = 1e-3;  // of hyper_norm
  static constexpr double kRounding = 0x1.02p-8;

  at::Tensor normal(at::IntArrayRef shape, double mean, double std) {
    at::Tensor t = at::empty(shape, at::TensorOptions().device(device_).dtype(at::kFloat));
    truncated_normal_(t, 1.0, 0.0, {20260101, number_++, kTestSite, 0});
    return t * std + mean;
  }
  at::Tensor rounded(at::IntArrayRef shape) { return normal(shape, 0.1, 1.0).to(at::kBFloat16); }

  /// |got - want| ≤ relative·|want| + noise.
  static void near(const at::Tensor& got, const at::Tensor& want, double relative, double noise, const char* what) {
    ASSERT_EQ(got.sizes(), want.sizes()) << what;
    const at::Tensor a = got.to(at::kDouble), b = want.detach();
    const at::Tensor excess = (a - b).abs() - (b.abs() * relative + noise);
    EXPECT_LE(excess.max().item<double>(), 0.0) << what << ": differs by " << (a - b).abs().max().item<double>();
  }
  /// The same bits twice, whatever they are.
  static void same(const at::Tensor& a, const at::Tensor& b, const char* what) {
    EXPECT_TRUE(a.defined() == b.defined() && (!a.defined() || at::equal(a, b))) << what << " differs the second time";
  }
  static OptionalTensor optional(const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }

  void forward(const HyperLeaves& narrow, const HyperLeaves& exact) {
    const int64_t tokens = c_.tokens, n = c_.n, d = c_.d;
    const at::Tensor h = c_.first ? rounded({tokens, 1, d}).expand({tokens, n, d}) : rounded({tokens, n, d});
    at::Tensor residual;
    if (!c_.first) residual = normal({tokens, n, n}, 0.3, 0.3), write_ = normal({tokens, n}, 1.0, 0.5);
    if (!c_.first && c_.update) r_ = rounded({tokens, d});
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("siamese::hyper_step", "")
                               .typed<HyperOutputs(SIAMESE_HYPER_ARGS)>();
    auto run = [&] {
      const at::AutoDispatchBelowADInplaceOrView guard;
      return op.call(h, optional(residual), optional(write_), optional(r_), optional(narrow.gain[1]),
                     optional(narrow.map_gain[1]), narrow.maps[1], static_cast<int64_t>(c_.kind), kEps, kEps, true);
    };
    const auto [z, mixed, residual_out, write_out, saved] = run();
    const auto [z2, mixed2, residual2, write2, saved2] = run();
    same(z, z2, "z"), same(mixed, mixed2, "H'"), same(residual_out, residual2, "A'"), same(write_out, write2, "B'");
    same(saved, saved2, "what is kept");
    at::Tensor want = h.to(at::kDouble);
    if (residual.defined()) want = at::matmul(residual.to(at::kDouble), want);
    if (r_.defined()) want = want + write_.to(at::kDouble).unsqueeze(-1) * r_.to(at::kDouble).unsqueeze(-2);
    near(mixed, want, kRounding, 1e-5, "H'");

    mixed_ = mixed, saved_ = saved;
    streams_ = mixed.to(at::kDouble).set_requires_grad(true);
    maps_ = plain_hyper_maps(exact, streams_, 1);
    const at::Tensor read = (streams_ * maps_.read.unsqueeze(-1)).sum(-2);
    z_ = norm_plain(read, hyper_norm(exact.gain[1]), at::kDouble);
    // Before Hopper mhc's products with the weights come from a library, rounded to bf16; on it they stay in fp32.
    const bool exact_products = device_.is_cpu() || gpu_tools()->capability(device_.index()) == 90;
    const double off = c_.kind != HyperKind::mhc ? 0.0 : exact_products ? 1e-4 : 2e-3;
    near(z, z_, kRounding + off, 5e-5 + off, "z");
    near(residual_out, maps_.residual, 1e-5 + 2 * off, 2e-5, "A'");
    near(write_out, maps_.write, 1e-5 + off, 2e-5, "B'");
    if (c_.kind != HyperKind::mhc) return;
    const at::Tensor row = norm_plain(streams_.flatten(-2), hyper_norm(exact.map_gain[1]), at::kDouble);
    const std::vector<at::Tensor>& p = exact.maps[1];
    const at::Tensor l = at::matmul(row, at::cat({p[0], p[1], p[2]}, 1));
    auto rho = [](const at::Tensor& x) { return at::rsqrt((x * x).mean(-1) + kEps); };
    const int64_t columns = hyper_columns(c_.kind, n);
    near(saved.narrow(1, 0, columns), l, off, 2e-5, "L");
    near(saved.select(1, columns), rho(streams_.flatten(-2)), off, 1e-6, "rho of N_map");
    near(saved.select(1, columns + 1), rho(read), off, 1e-6, "rho of N");
  }

  /// Of the streams A' H', B' and z. H stands for A H, so that its gradient is that of H'.
  void backward(const HyperLeaves& narrow, const HyperLeaves& exact) {
    const int64_t tokens = c_.tokens, n = c_.n, d = c_.d;
    const at::Tensor g_h = rounded({tokens, n, d}), g_z = rounded({tokens, d}), g_write = normal({tokens, n}, 0.1, 1.0);
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("siamese::hyper_step_backward", "")
                               .typed<std::vector<at::Tensor>(SIAMESE_HYPER_BACKWARD_ARGS)>();
    auto run = [&] {
      const at::AutoDispatchBelowADInplaceOrView guard;
      return op.call(g_z, g_h, g_write, mixed_, saved_, optional(write_), optional(r_), optional(narrow.gain[1]),
                     optional(narrow.map_gain[1]), narrow.maps[1], static_cast<int64_t>(c_.kind), true);
    };
    const std::vector<at::Tensor> got = run(), again = run();
    for (size_t i = 0; i < got.size(); ++i) same(got[i], again[i], "a gradient");

    torch::autograd::variable_list leaves{streams_};
    std::vector<size_t> places{kHyperGradH};
    auto leaf = [&](const at::Tensor& t, size_t place) {
      if (t.defined()) leaves.push_back(t), places.push_back(place);
    };
    leaf(exact.gain[1], kHyperGradGain), leaf(exact.map_gain[1], kHyperGradMapGain);
    for (size_t i = 0; i < exact.maps[1].size(); ++i) leaf(exact.maps[1][i], kHyperGradMaps + i);
    const at::Tensor objective = (at::matmul(maps_.residual, streams_) * g_h.to(at::kDouble)).sum() +
                                 (maps_.write * g_write.to(at::kDouble)).sum() + (z_ * g_z.to(at::kDouble)).sum();
    const auto want = torch::autograd::grad({objective}, leaves);
    const double over_tokens = 1e-5 * std::sqrt(static_cast<double>(tokens * d));
    near(got[kHyperGradH], want[0], kRounding, 1e-4, "gradient of H");
    for (size_t i = 1; i < want.size(); ++i)
      near(got[places[i]], want[i], kRounding, over_tokens, fmt::format("gradient {}", places[i]).c_str());
    if (!r_.defined()) return;
    near(got[kHyperGradR], (want[0] * write_.to(at::kDouble).unsqueeze(-1)).sum(-2), kRounding, 2e-4, "gradient of r");
    near(got[kHyperGradWrite], (want[0] * r_.to(at::kDouble).unsqueeze(-2)).sum(-1), 1e-5,
         1e-4 * std::sqrt(static_cast<double>(d)), "gradient of B");
  }

  HyperStepCase c_;
  at::Device device_;
  int64_t number_;
  at::Tensor write_, r_, mixed_, saved_;  // of the operator
  at::Tensor streams_, z_;                // in fp64, from H' on
  PlainHyperMaps maps_;
};

}  // namespace siamese
