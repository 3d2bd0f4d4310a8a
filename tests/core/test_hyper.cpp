// The step of the hyper-connections: the operator against the plain formulas, gradients against finite differences,
// shapes, what it refuses, how the schemes use it, and the per-token arithmetic of the GPU kernels.
#include <cmath>

#include "hyper_step_cases.h"
#include "kernels/mhc_maps.h"
#include "scheme_cases.h"

namespace siamese {
namespace {

std::vector<HyperCase> cases() {
  std::vector<HyperCase> all;
  for (const HyperKind kind : {HyperKind::fixed, HyperKind::dynamic, HyperKind::mhc}) {
    for (const int64_t n : {1, 2, 3, 4}) all.push_back({.kind = kind, .n = n, .tokens = 7, .d = 12});
    all.push_back({.kind = kind, .n = 2, .tokens = 5, .d = 8, .gains = false});
    all.push_back({.kind = kind, .n = 4, .tokens = 5, .d = 8, .shared = true, .end_norm = false});
    all.push_back({.kind = kind, .n = 2, .tokens = 1, .d = 5, .whole_loss = false});
  }
  return all;
}

class HyperStep : public testing::TestWithParam<HyperCase> {
  const OneThread one_thread_;
};
INSTANTIATE_TEST_SUITE_P(All, HyperStep, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(HyperStep, IsThePlainFormula) {
  HyperLeaves exact(GetParam());
  expect_same_runs(hyper_fused(exact), exact, hyper_plain(exact), exact, 1e-13, 1e-11);
  HyperLeaves narrow = exact.copy(at::kCPU, at::kFloat);
  expect_same_runs(hyper_fused(narrow), narrow, hyper_plain(exact), exact, 5e-6, 2e-4);
  HyperLeaves bf16 = exact.copy(at::kCPU, at::kBFloat16);
  expect_same_runs(hyper_fused(bf16), bf16, hyper_plain(exact), exact, 3e-2, 0.1, 0.1);
}

TEST_P(HyperStep, FiniteDifferences) {
  const HyperLeaves s(GetParam());
  expect_gradients([&] { return hyper_fused(s).loss(s); }, s.leaves);
}

TEST(HyperStepOperator, OneStepIsTheFormulas) {
  for (const HyperKind kind : {HyperKind::dynamic, HyperKind::mhc})
    for (const int64_t n : {2, 4}) {
      HyperStepCheck({.kind = kind, .n = n, .tokens = 33, .d = 256}, at::kCPU);
      HyperStepCheck({.kind = kind, .n = n, .tokens = 5, .d = 384, .first = true}, at::kCPU);
      HyperStepCheck({.kind = kind, .n = n, .tokens = 8, .d = 128, .update = false, .gains = false}, at::kCPU);
    }
}

TEST(HyperStepOperator, Meta) {
  HyperLeaves s({.kind = HyperKind::mhc, .n = 4, .tokens = 3, .d = 8});
  HyperLeaves meta = s.copy(at::kMeta, at::kBFloat16);
  HyperStepInput in;
  in.h = meta.h, in.kind = HyperKind::mhc, in.maps = meta.maps[0], in.dtype = at::kBFloat16;
  in.norm = hyper_norm(meta.gain[0]), in.map_norm = hyper_norm(meta.map_gain[0]);
  EXPECT_FALSE(hyper_step_fusable(in));
  const HyperStepOutput out = hyper_step(in);
  EXPECT_TRUE(out.z.is_meta() && out.h.is_meta());
  EXPECT_EQ(out.z.sizes(), at::IntArrayRef({3, 8}));
  EXPECT_EQ(out.residual.sizes(), at::IntArrayRef({3, 4, 4}));
  EXPECT_EQ(out.write.scalar_type(), at::kFloat);
}

TEST(HyperStepOperator, NoTokens) {
  for (const HyperKind kind : {HyperKind::fixed, HyperKind::dynamic, HyperKind::mhc}) {
    const HyperLeaves s({.kind = kind, .n = 4, .tokens = 0, .d = 8});
    for (const at::Tensor& g : hyper_gradients(hyper_fused(s), s)) EXPECT_EQ(g.abs().sum().item<double>(), 0.0);
  }
}

TEST(HyperStepOperator, RefusesWhatItCannotRead) {
  auto refused = [&](const std::function<void(HyperStepInput&)>& spoil) {
    const HyperLeaves s({.kind = HyperKind::dynamic, .n = 2, .tokens = 3, .d = 8});
    HyperStepInput in;
    in.h = s.h, in.kind = HyperKind::dynamic, in.maps = s.maps[0], in.dtype = at::kDouble;
    in.norm = hyper_norm(s.gain[0]), in.map_norm = hyper_norm(s.map_gain[0]);
    spoil(in);
    try {
      hyper_step(in);
    } catch (const c10::Error& e) {
      return std::string(e.what_without_backtrace()).starts_with("[hyper_step]");
    }
    return false;
  };
  EXPECT_FALSE(refused([](HyperStepInput&) {}));
  EXPECT_TRUE(refused([](HyperStepInput& in) { in.h = in.h[0][0]; }));
  EXPECT_TRUE(refused([](HyperStepInput& in) { in.maps.pop_back(); }));
  EXPECT_TRUE(refused([](HyperStepInput& in) { in.maps[1] = in.maps[0]; }));
  EXPECT_TRUE(refused([](HyperStepInput& in) { in.norm.gain = in.norm.gain.slice(0, 1); }));
  EXPECT_TRUE(refused([](HyperStepInput& in) { in.r = in.h.select(1, 0); }));  // without the map it is written with
  EXPECT_TRUE(refused([](HyperStepInput& in) { in.residual = at::zeros({3, 2}, at::kDouble); }));
  EXPECT_TRUE(refused([](HyperStepInput& in) { in.residual = at::zeros({3, 2, 2}, at::kFloat); }));
}

TEST(HyperStepOperator, LayerNormGoesThePlainWay) {
  const HyperLeaves s({.kind = HyperKind::fixed, .n = 2, .tokens = 3, .d = 8});
  HyperStepInput in;
  in.h = s.h, in.kind = HyperKind::fixed, in.maps = s.maps[0];
  in.norm = hyper_norm(s.gain[0]);
  EXPECT_TRUE(hyper_step_fusable(in));
  in.norm.kind = NormKind::layer;
  EXPECT_FALSE(hyper_step_fusable(in));
}

/// An update handed in while another is pending is written to the streams as they then are.
TEST(HyperScheme, TwoWritesAfterOneReadAreBothWritten) {
  for (const char* scheme : {"hc_static", "hc_dynamic", "mhc"}) {
    SchemeRun run(scheme_config(scheme));
    const Read read = run.scheme->read(run.scheme->start(run.embedding), {0});
    EXPECT_EQ(read.streams.s.size(), 3U) << scheme;  // H, A, B: mixed when the update is written
    const at::Tensor r = at::sin(read.input);
    const Streams once = run.scheme->write(read.streams, {r, {}, {}}, {0});
    const at::Tensor want = run.scheme->finish(once);
    // A second update of zeros needs the streams settled: they are H' itself, and nothing mixes them again.
    Streams settled = run.scheme->write(once, {at::zeros_like(r), {}, {}}, {0});
    ASSERT_EQ(settled.s.size(), 1U) << scheme;
    settled.pending = {};
    const at::Tensor got = run.scheme->finish(settled);
    EXPECT_LE(relative_error(got, want), 1e-14) << scheme;
    const at::Tensor weight = random_normal(got.sizes(), 1);
    torch::autograd::variable_list leaves;
    for (const auto& [name, t] : run.leaves) leaves.push_back(t);
    const auto a = torch::autograd::grad({got}, leaves, {weight}, true, false, true);
    const auto b = torch::autograd::grad({want}, leaves, {weight}, true, false, true);
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].defined(), b[i].defined()) << scheme << " " << run.leaves[i].first;
      if (!a[i].defined()) continue;
      EXPECT_LE((a[i] - b[i]).abs().max().item<double>(), 1e-12) << scheme << " " << run.leaves[i].first;
    }
  }
}

// --- what a GPU thread does for a token of mhc --------------------------------------------------------------------

template <int N>
void expect_token_arithmetic() {
  constexpr int kColumns = kernels::kMhcColumns<N>, kTokens = 20;
  const at::Tensor products = random_normal({kTokens, kColumns}, 1).set_requires_grad(true);
  const at::Tensor b = (0.7 * random_normal({kColumns}, 2)).set_requires_grad(true);
  const at::Tensor s = at::tensor({0.8, 1.1, 1.7}, at::kDouble);
  const at::Tensor g_read = random_normal({kTokens, N}, 3), g_write = random_normal({kTokens, N}, 4),
                   g_residual = random_normal({kTokens, N, N}, 5);
  auto logits = [&](int m) {
    const int64_t from = m * N, to = m == 2 ? kColumns : from + N;
    return s[m] * products.slice(1, from, to) + b.slice(0, from, to);
  };
  const at::Tensor read = at::sigmoid(logits(0)), write = 2 * at::sigmoid(logits(1));
  at::Tensor residual = at::exp(logits(2)).view({kTokens, N, N});
  for (int i = 0; i < kernels::kSinkhornDivisions; ++i) residual = residual / residual.sum(i % 2 == 0 ? -2 : -1, true);
  const at::Tensor loss = (read * g_read).sum() + (write * g_write).sum() + (residual * g_residual).sum();
  const auto want = torch::autograd::grad({loss}, {products, b});

  kernels::MhcMapParameters<N> p;
  for (int c = 0; c < kColumns; ++c) p.b[c] = b[c].item<float>();
  for (int i = 0; i < 3; ++i) p.s[i] = s[i].item<float>();
  at::Tensor e = at::zeros({kTokens, kColumns}, at::kDouble), g_b = at::zeros({kColumns}, at::kDouble);
  constexpr float kRho = 1.3f, kMapRho = 0.6f, kD = 16;
  for (int t = 0; t < kTokens; ++t) {
    float l[kColumns], token_read[N], token_write[N], token_residual[N * N];
    for (int c = 0; c < kColumns; ++c) l[c] = products[t][c].item<float>();
    kernels::mhc_maps<N>(l, p, token_read, token_write, token_residual);
    kernels::MhcTokenGradient<N> g{};
    for (int i = 0; i < N; ++i) {
      EXPECT_NEAR(token_read[i], read[t][i].item<double>(), 1e-6);
      EXPECT_NEAR(token_write[i], write[t][i].item<double>(), 1e-6);
      g.u[i] = g_read[t][i].item<float>() / kRho;  // without a norm on z, ga = ρ u
      g.g_write[i] = g_write[t][i].item<float>();
    }
    for (int i = 0; i < N * N; ++i) {
      EXPECT_NEAR(token_residual[i], residual[t].flatten()[i].item<double>(), 2e-6);
      g.mixed[i] = g_residual[t].flatten()[i].item<float>();
    }
    g.rho = kRho, g.map_rho = kMapRho;
    float sums[kernels::kSinkhornDivisions][N];
    auto keep = [&](int division, const float(&v)[N]) { std::copy(v, v + N, sums[division]); };
    auto recall = [&](int division, float(&v)[N]) { std::copy(sums[division], sums[division] + N, v); };
    kernels::mhc_token_backward<N>(l, p, /*norm=*/false, kD, g, keep, recall);
    double k = 0;
    for (int c = 0; c < kColumns; ++c) {
      e[t][c] = g.e[c] / kMapRho;
      g_b[c] += g.g_logits[c];
      k += kMapRho * kMapRho / (N * kD) * want[0][t][c].item<double>() * l[c];
    }
    EXPECT_NEAR(g.k, k, 1e-5 * (1 + std::abs(k)));
    for (int i = 0; i < N * N; ++i) EXPECT_EQ(g.residual[i], token_residual[i]);
  }
  EXPECT_LE(relative_error(e, want[0]), 2e-5);
  EXPECT_LE(relative_error(g_b, want[1]), 2e-5);
}

TEST(MhcTokenArithmetic, IsAutograds) {
  expect_token_arithmetic<2>();
  expect_token_arithmetic<4>();
}

}  // namespace
}  // namespace siamese
