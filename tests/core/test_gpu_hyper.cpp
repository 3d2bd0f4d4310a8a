// The hyper-connections' kernels against the plain path in fp64 and against the CPU's operator, which rounds where they
// do; sizes that use every kernel: tensor cores (bf16, 4 streams, d a multiple of 32), and not; by tiles (2 dynamic
// streams, d a multiple of 256), by clusters (mhc, d a multiple of 128, 8 tokens at a time), and not.
#include "gpu.h"
#include "hyper_step_cases.h"
#include "models/language_model.h"
#include "scheme_cases.h"

namespace siamese {
namespace {

struct GpuHyperCase {
  HyperKind kind;
  int64_t n;
};

class GpuHyper : public Gpu, public testing::WithParamInterface<GpuHyperCase> {
 protected:
  void compare(const HyperCase& c) {
    SCOPED_TRACE(c.name());
    {
      HyperLeaves exact(c), narrow = exact.copy(gpu_, at::kFloat), truth = exact.copy(gpu_, at::kDouble);
      expect_same_runs(hyper_fused(narrow), narrow, hyper_plain(truth), truth, 1e-5, 5e-4);
    }
    HyperLeaves exact(c), narrow = exact.copy(gpu_, at::kBFloat16), same = exact.copy(at::kCPU, at::kBFloat16),
                          truth = exact.copy(gpu_, at::kDouble);
    expect_as_close(hyper_fused(narrow), narrow, hyper_fused(same), same, hyper_plain(truth), truth, 3e-2, 0.1);
  }
};

TEST_P(GpuHyper, FusedEqualsPlain) {
  const auto [kind, n] = GetParam();
  for (const auto& [tokens, d] : std::vector<std::pair<int64_t, int64_t>>{{1, 8},
                                                                          {7, 32},
                                                                          {1000, 64},
                                                                          {7, 264},
                                                                          {33, 96},
                                                                          {1, 512},
                                                                          {1000, 1024},
                                                                          {65, 1056},
                                                                          {7, 2048},
                                                                          {48, 384},
                                                                          {48, 768},
                                                                          {50, 768},
                                                                          {2501, 96}})
    compare({.kind = kind, .n = n, .tokens = tokens, .d = d});
  compare({.kind = kind, .n = n, .tokens = 50, .d = 128, .gains = false});
  compare({.kind = kind, .n = n, .tokens = 50, .d = 256, .shared = true, .end_norm = false});
  compare({.kind = kind, .n = n, .tokens = 50, .d = 256, .whole_loss = false});
  compare({.kind = kind, .n = n, .tokens = 2501, .d = 160, .whole_loss = false});
}

/// Sizes and types without kernels: the operator goes the plain way.
TEST_P(GpuHyper, WithoutKernelsEqualsPlain) {
  const auto [kind, n] = GetParam();
  for (const auto& [tokens, d] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 12}, {33, 101}, {5, 2056}})
    compare({.kind = kind, .n = n, .tokens = tokens, .d = d});
  compare({.kind = kind, .n = n + 1, .tokens = 33, .d = 64});
  compare({.kind = kind, .n = n, .tokens = 7, .d = 20, .gains = false});
  compare({.kind = kind, .n = n, .tokens = 7, .d = 20, .shared = true, .end_norm = false});
  HyperLeaves exact({.kind = kind, .n = n, .tokens = 33, .d = 64}), wide = exact.copy(gpu_, at::kDouble);
  expect_same_runs(hyper_fused(wide), wide, hyper_plain(exact), exact, 1e-12, 1e-10);
}

TEST_P(GpuHyper, SameBitsTwice) {
  const auto [kind, n] = GetParam();
  for (const int64_t tokens : {700, 704, 705}) {
    HyperLeaves exact({.kind = kind, .n = n, .tokens = tokens, .d = 512}), s = exact.copy(gpu_, at::kBFloat16);
    const auto a = hyper_gradients(hyper_fused(s), s), b = hyper_gradients(hyper_fused(s), s);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << s.leaves[i].first;
  }
}

TEST_P(GpuHyper, NoTokens) {
  const auto [kind, n] = GetParam();
  HyperLeaves exact({.kind = kind, .n = n, .tokens = 0, .d = 64});
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    HyperLeaves s = exact.copy(gpu_, type);
    for (const at::Tensor& g : hyper_gradients(hyper_fused(s), s)) EXPECT_EQ(g.abs().sum().item<double>(), 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuHyper,
                         testing::Values(GpuHyperCase{HyperKind::fixed, 2}, GpuHyperCase{HyperKind::fixed, 4},
                                         GpuHyperCase{HyperKind::dynamic, 2}, GpuHyperCase{HyperKind::dynamic, 4},
                                         GpuHyperCase{HyperKind::mhc, 2}, GpuHyperCase{HyperKind::mhc, 4}),
                         [](const auto& p) {
                           return HyperCase({p.param.kind, p.param.n}).name();
                         });

/// Tokens: one; fewer than multiprocessors; odd, even and multiples of 8; so many that every ring of tiles goes round,
/// and that many which no tile divides. `first` and no update: kernels that mix nothing, or write nothing.
TEST_F(Gpu, OneHyperStepIsTheFormulas) {
  struct Width {
    HyperKind kind;
    int64_t n, d, most;
  };
  const HyperKind dynamic = HyperKind::dynamic, mhc = HyperKind::mhc;
  for (const auto& [kind, n, d, most] : std::vector<Width>{{dynamic, 2, 256, 18000},
                                                           {dynamic, 2, 384, 4000},
                                                           {dynamic, 2, 768, 6000},
                                                           {dynamic, 2, 1024, 4000},
                                                           {dynamic, 2, 2048, 2400},
                                                           {dynamic, 4, 1024, 2000},
                                                           {mhc, 4, 256, 4000},
                                                           {mhc, 4, 384, 10000},
                                                           {mhc, 4, 640, 8000},
                                                           {mhc, 4, 768, 8000},
                                                           {mhc, 4, 1024, 8000},
                                                           {mhc, 4, 2048, 1000}})
    for (const int64_t tokens : {int64_t{1}, int64_t{8}, int64_t{12}, int64_t{131}, int64_t{400}, most, most + 3}) {
      if (under_sanitizer() && tokens > 400) continue;
      HyperStepCheck({.kind = kind, .n = n, .tokens = tokens, .d = d}, gpu_);
      if (tokens > 400) continue;
      HyperStepCheck({.kind = kind, .n = n, .tokens = tokens, .d = d, .first = true}, gpu_);
      HyperStepCheck({.kind = kind, .n = n, .tokens = tokens, .d = d, .update = false}, gpu_);
      HyperStepCheck({.kind = kind, .n = n, .tokens = tokens, .d = d, .gains = false}, gpu_);
    }
}

/// A whole model, fused and not: 3 streams have no kernels and must go the plain way.
TEST_F(Gpu, HyperModelsFusedEqualPlain) {
  const at::Tensor ids = random_ids(2, 34, 50).to(gpu_);
  for (const std::string scheme : {"hc_static", "hc_dynamic", "mhc"})
    for (const int64_t n : {2, 3, 4})
      for (const auto& [values, streams, tolerance] : std::vector<std::tuple<at::ScalarType, at::ScalarType, double>>{
               {at::kFloat, at::kFloat, 1e-4}, {at::kBFloat16, at::kBFloat16, 0.1}, {at::kBFloat16, at::kFloat, 0.1}}) {
        SCOPED_TRACE(fmt::format("{} {} {}", scheme, n, c10::toString(streams)));
        ModelConfig c = tiny_config(scheme);
        c.streams = n, c.d_model = 256, c.n_heads = c.n_kv_heads = 4, c.mlp_hidden_size = 256, c.vocab_size = 50;
        std::vector<at::Tensor> grads[2];
        double loss[2];
        for (const bool fused : {false, true}) {
          c.fused = fused;
          ModelOptions options;
          options.device = gpu_, options.dtype = values, options.stream_dtype = streams;
          LanguageModel model(c, options);
          fill_randomly(model.params(), 1, 0.1);
          const at::Tensor total = model.loss(ids, {}).total;
          loss[fused] = total.item<double>();
          for (const at::Tensor& g : gradients(total, model.params())) grads[fused].push_back(g.to(at::kDouble));
        }
        EXPECT_NEAR(loss[1], loss[0], 0.1 * tolerance * loss[0]);
        // In norm over all parameters, and each against its own or a hundredth of the largest.
        double largest = 0, difference = 0, norm = 0;
        for (const at::Tensor& g : grads[0]) largest = std::max(largest, g.norm().item<double>());
        for (size_t i = 0; i < grads[0].size(); ++i) {
          const double error = (grads[1][i] - grads[0][i]).norm().item<double>(),
                       own = grads[0][i].norm().item<double>();
          difference += error * error, norm += own * own;
          EXPECT_LE(error, 5 * tolerance * std::max(own, 0.01 * largest)) << "parameter " << i;
        }
        EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm));
      }
}

}  // namespace
}  // namespace siamese
