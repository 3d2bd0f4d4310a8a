// The norms of q, k and v inside the projection and inside attention's backward pass: on the CPU against the passes
// before and after attention that they replace, on the GPU against the CPU in fp64.
#include "ops/attention_norms.h"

#include "both_forms.h"
#include "gpu.h"
#include "gradcheck.h"
#include "models/language_model.h"
#include "near.h"
#include "ops/attention.h"
#include "ops/gemm.h"
#include "ops/gemm_qkv_norm.h"
#include "ops/own_attention.h"
#include "ops/qkv_rope.h"

namespace siamese {
namespace {

constexpr double kEps = 1e-5;

struct Size {
  int64_t batch, length, heads, kv_heads, dim, k;

  int64_t all() const { return heads + 2 * kv_heads; }
  std::string name() const {
    return c10::str(batch, " x ", length, " tokens, ", heads, " + 2*", kv_heads, " heads of ", dim, ", k ", k);
  }
};

/// In fp64 on the CPU, what bf16 can say where `rounded`. One gain is 0, unless they are to be `alike`.
struct Inputs {
  Size size;
  bool alike;
  at::Tensor x, w, g;
  std::vector<at::Tensor> gains;
  AttentionCore core;

  explicit Inputs(const Size& s, bool rounded = false, bool alike_ = false) : size(s), alike(alike_) {
    auto draw = [&](at::IntArrayRef shape, int seed) {
      const at::Tensor t = random_normal(shape, seed);
      return rounded ? t.to(at::kBFloat16).to(at::kDouble) : t;
    };
    x = draw({s.batch * s.length, s.k}, 1), w = draw({s.all() * s.dim, s.k}, 2);
    g = draw({s.batch, s.length, s.heads, s.dim}, 3);
    const at::Tensor angle = random_normal({s.length, s.dim / 2}, 4);
    core.heads = s.heads, core.kv_heads = s.kv_heads, core.head_dim = s.dim;
    core.cos = angle.cos(), core.sin = angle.sin();
    for (int i = 0; i < 3; ++i) {
      gains.push_back(draw({s.dim}, 5 + i).mul(0.2).add(1));
      if (alike) gains.back() = gains.back().clamp(0.5, 2);
      gains.back()[i] = alike ? -0.5 : 0;
      if (rounded) gains.back() = gains.back().to(at::kBFloat16).to(at::kDouble);
      core.norm[i] = {true, NormKind::rms, kEps, gains.back(), {}};
    }
  }
  QkvNormed operator()() const {
    return gemm_qkv_norm(x, w, gains, core.cos, core.sin, kEps, size.heads, size.kv_heads, size.length);
  }
  at::Tensor by_heads(const at::Tensor& p) const { return p.view({size.batch, size.length, -1, size.dim}); }
};

TEST(GemmQkvNorm, IsProductNormsAndRotation) {
  const Inputs in({3, 5, 3, 2, 6, 4});
  const at::Tensor p = gemm(in.x, in.w, false, true);
  const QkvNormed n = in();
  EXPECT_TRUE(at::allclose(in.by_heads(n.out), qkv_rope_plain(in.by_heads(p), in.core), 1e-12, 1e-12));
  EXPECT_TRUE(at::equal(n.raw, p.narrow(1, 0, 5 * 6)));
  const at::Tensor rho = at::rsqrt(in.by_heads(p).square().mean(-1) + kEps);
  EXPECT_TRUE(at::allclose(n.rho, rho.view({15, 7}).t(), 1e-12, 1e-12));
}

TEST(GemmQkvNorm, GradientsByFiniteDifferences) {
  Inputs in({2, 3, 2, 1, 4, 3});
  for (at::Tensor* t : {&in.x, &in.w, &in.gains[0], &in.gains[1], &in.gains[2]}) t->set_requires_grad(true);
  expect_gradients([&] { return in().out.sin().sum(); },
                   {{"x", in.x}, {"w", in.w}, {"q", in.gains[0]}, {"k", in.gains[1]}, {"v", in.gains[2]}});
  const QkvNormed n = in();
  EXPECT_TRUE(n.out.requires_grad() && !n.raw.requires_grad() && !n.rho.requires_grad());
}

TEST(GemmQkvNorm, ShapesAreKnownWithoutNumbers) {
  Inputs in({3, 5, 3, 2, 6, 4});
  const QkvNormed want = in();
  for (at::Tensor* t : {&in.x, &in.w, &in.gains[0], &in.gains[1], &in.gains[2], &in.core.cos, &in.core.sin})
    *t = t->to(at::kMeta);
  const QkvNormed got = in();
  EXPECT_EQ(got.out.sizes(), want.out.sizes());
  EXPECT_EQ(got.raw.sizes(), want.raw.sizes());
  EXPECT_EQ(got.rho.sizes(), want.rho.sizes());
}

TEST(GemmQkvNorm, RefusesGainsThatDoNotFit) {
  Inputs in({3, 5, 3, 2, 6, 4});
  in.gains[1] = in.gains[1].narrow(0, 0, 5);
  EXPECT_THROW(in(), c10::Error);
  in.gains.pop_back();
  EXPECT_THROW(in(), c10::Error);
}

/// Gradients of the projection and of the gains, through attention, rotation and norms one after the other.
std::pair<at::Tensor, std::vector<at::Tensor>> one_after_the_other(const Inputs& in) {
  const at::Tensor p = gemm(in.x, in.w, false, true).set_requires_grad(true);
  AttentionCore core = in.core;
  std::vector<at::Tensor> inputs{p};
  for (int i = 0; i < 3; ++i)
    inputs.push_back(core.norm[i].gain = in.gains[static_cast<size_t>(i)].clone().set_requires_grad(true));
  const at::Tensor y = qkv_rope_plain(in.by_heads(p), core);
  const at::Tensor out = std::get<0>(own_attention(y, in.size.heads, in.size.heads));
  const auto got = torch::autograd::grad({out}, inputs, {in.g});
  return {in.by_heads(got[0]), {got[1], got[2], got[3]}};
}
/// The same at once, on `device` in its type. Where it can do without what was kept of q and k, that is NaN.
std::tuple<at::Tensor, at::Tensor> at_once(const Inputs& in, at::Device device, at::ScalarType type, bool natural,
                                           bool lean = false) {
  const at::NoGradGuard no_grad;
  auto there = [&](const at::Tensor& t) { return t.to(device, type); };
  const at::Tensor cos = in.core.cos.to(device, type == at::kDouble ? at::kDouble : at::kFloat),
                   sin = in.core.sin.to(cos.options());
  const at::Tensor gains[] = {there(in.gains[0]), there(in.gains[1]), there(in.gains[2])};
  const QkvNormed n = gemm_qkv_norm(there(in.x), there(in.w), gains, cos, sin, kEps, in.size.heads, in.size.heads,
                                    in.size.length, lean);
  if (lean && in.alike) n.raw.fill_(NAN);
  const at::Tensor y = in.by_heads(n.out);
  auto [out, sums] = own_attention(y, in.size.heads, in.size.heads);
  if (natural) sums = (sums.slice(2, 0, in.size.length) / M_LOG2E).contiguous();
  return attention_norms_backward(there(in.g), y, out, sums, natural,
                                  {cos, sin, {gains[0], gains[1], gains[2]}, n.raw, n.rho, lean});
}

TEST(AttentionNorms, BackwardIsThatOfAllOneAfterTheOther) {
  for (const bool alike : {false, true})
    for (const bool lean : {false, true}) {
      const Inputs in({2, 7, 3, 3, 6, 4}, false, alike);
      const auto [want, want_gains] = one_after_the_other(in);
      const auto [got, got_gains] = at_once(in, at::kCPU, at::kDouble, false, lean);
      EXPECT_TRUE(at::allclose(got, want, 1e-9, 1e-9)) << alike << lean;
      for (int64_t i = 0; i < 3; ++i)
        EXPECT_TRUE(at::allclose(got_gains[i], want_gains[static_cast<size_t>(i)], 1e-9, 1e-9)) << i << alike << lean;
    }
}

TEST(AttentionNorms, GainsTellWherePartnersAreAlike) {
  auto tells = [](const std::vector<float>& q, const std::vector<float>& k) {
    const at::Tensor gains[] = {at::tensor(q), at::tensor(k), at::zeros({4})};
    return gains_tell(gains).item<bool>();
  };
  const std::vector<float> ones{1, 1, 1, 1};
  EXPECT_TRUE(tells(ones, ones));
  EXPECT_TRUE(tells({1, 100, 4, -25}, {0, 1, 0, 1}));  // a pair of zeros is alike, too
  EXPECT_FALSE(tells({1, 1, 4.1F, 1}, ones));
  EXPECT_FALSE(tells(ones, {1, 4.1F, 1, -1}));
  EXPECT_FALSE(tells(ones, {1, 0, 1, 1}));
  EXPECT_FALSE(tells({1, NAN, 1, 1}, ones));
}

TEST(AttentionNorms, RefusesWhatWasNotKept) {
  const at::Tensor qkv = random_normal({1, 2, 6, 4}, 1), out = random_normal({1, 2, 2, 4}, 2);
  const at::Tensor table = random_normal({2, 2}, 3), gain = random_normal({4}, 4);
  EXPECT_THROW(attention_norms_backward(out, qkv, out, {}, false,
                                        {table, table, {gain, gain, gain}, qkv, random_normal({6, 2}, 5)}),
               c10::Error);
}

// What is tried before the kernels are taken, here on plain operations in bf16.
TEST(AttentionNorms, ExampleIsRightToRounding) {
  const bool before = lean_norms();
  for (const bool lean : {false, true}) {
    set_lean_norms(lean);
    const double error = attention_norms_error(16, at::kCPU);
    EXPECT_GT(error, 1e-4);
    EXPECT_LT(error, 0.02);
  }
  set_lean_norms(before);
}

/// Projections that take the kernel: whole tiles and such that are not; in one tile heads of q, k and v.
std::vector<Size> products() {
  if (under_sanitizer()) return {{97, 301, 5, 2, 64, 512}};
  return {{16, 512, 16, 16, 64, 1024}, {1901, 23, 4, 1, 64, 64}, {97, 301, 5, 2, 64, 192}, {5, 5471, 8, 1, 64, 512}};
}

class GpuAttentionNorms : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (!IsSkipped() && !own_attention_fits(64, gpu_)) GTEST_SKIP() << "no kernels for this GPU";
  }
  void TearDown() override {
    set_norms_inside(before_);
    set_lean_norms(lean_before_);
  }
  bool before_ = norms_inside(), lean_before_ = lean_norms();
};

TEST_F(GpuAttentionNorms, ProductIsTheCpus) {
  for (const Size& size : products()) {
    const Inputs in(size, true);
    auto there = [&](const at::Tensor& t) { return t.to(gpu_, at::kBFloat16); };
    at::Tensor gains[] = {there(in.gains[0]), there(in.gains[1]), there(in.gains[2])};
    const at::Tensor cos = in.core.cos.to(gpu_, at::kFloat), sin = in.core.sin.to(gpu_, at::kFloat);
    auto run = [&](bool lean) {
      return gemm_qkv_norm(there(in.x), there(in.w), gains, cos, sin, kEps, size.heads, size.kv_heads, size.length,
                           lean);
    };
    // A gain is 0: nothing is left out.
    in_both_forms(
        [&] {
          const QkvNormed n = run(false);
          return std::tuple(n.out, n.raw, n.rho);
        },
        size.name());
    const QkvNormed got = run(false), again = run(true), want = in();
    // x is rounded before it is normed: up to a step of bf16 on the way, one at the end.
    expect_near(got.raw, want.raw, 8e-3, 1e-4, "x of " + size.name());
    expect_near(got.rho, want.rho, 4e-3, 1e-6, "rho of " + size.name());
    expect_near(got.out, want.out, 8e-3, 6e-3, "y of " + size.name());
    EXPECT_TRUE(at::equal(got.out, again.out) && at::equal(got.raw, again.raw) && at::equal(got.rho, again.rho))
        << size.name() << " twice";
    for (at::Tensor& gain : gains) gain.clamp_(0.5, 2);
    in_both_forms(
        [&] {
          const QkvNormed n = run(true);
          return std::tuple(n.out, n.rho);
        },
        size.name() + " lean");
    const QkvNormed full = run(false), lean = run(true);
    EXPECT_TRUE(at::equal(full.out, lean.out) && at::equal(full.rho, lean.rho)) << size.name() << " lean";
  }
}

TEST_F(GpuAttentionNorms, BackwardIsTheCpus) {
  const std::vector<Size> all{{1, 1, 2, 2, 64, 64},   {2, 64, 3, 3, 64, 64},   {3, 130, 2, 2, 64, 64},
                              {7, 197, 3, 3, 64, 64}, {1, 2300, 2, 2, 64, 64}, {9, 700, 16, 16, 64, 64}};
  for (const Size& size : all) {
    if (under_sanitizer() && size.batch * size.heads * size.length * size.length > 1'000'000) continue;
    for (const bool alike : {false, true}) {
      Inputs in(size, true, alike);
      in.w.mul_(0.2), in.w = in.w.to(at::kBFloat16).to(at::kDouble);
      const auto [want, want_gains] = at_once(in, at::kCPU, at::kDouble, false);
      for (const auto& [natural, lean] : {std::pair(false, false), {true, false}, {false, true}}) {
        const std::string what = c10::str(size.name(), alike ? ", alike" : "", lean ? ", lean" : "");
        const auto [got, got_gains] = at_once(in, gpu_, at::kBFloat16, natural, lean);
        auto off = [](const at::Tensor& a, const at::Tensor& b) {
          return ((a.to(at::kCPU, at::kDouble) - b).norm() / b.norm()).item<double>();
        };
        EXPECT_LE(off(got, want), 0.012) << what;
        EXPECT_LE(off(got_gains, want_gains), 0.012) << what;
        const auto [again, again_gains] = at_once(in, gpu_, at::kBFloat16, natural, lean);
        EXPECT_TRUE(at::equal(got, again) && at::equal(got_gains, again_gains)) << what << " twice";
      }
    }
  }
}

// A model's loss and gradients are those of the passes apart, whatever is recomputed: tokens enough for the kernels.
TEST_F(GpuAttentionNorms, ModelsGradientsAreThoseOfThePassesApart) {
  if (under_sanitizer()) GTEST_SKIP() << "too large";
  for (const bool lean : {false, true}) {
    set_lean_norms(lean);
    EXPECT_LE(attention_norms_error(2, gpu_), 0.02);
  }
  for (const char* scheme : {"siamese_hybrid", "hybrid"})
    for (const Recompute policy : {Recompute::none, Recompute::norms, Recompute::feed_forward, Recompute::block}) {
      ModelConfig config;
      config.scheme = scheme, config.n_layers = 2, config.d_model = 128, config.n_heads = config.n_kv_heads = 2;
      config.mlp_hidden_size = 512, config.vocab_size = 64;
      constexpr int64_t rows = 32, length = 2048;
      EXPECT_TRUE(gpu_tools()->attention_norms_fit(rows, length, 2, 2, 128));
      const at::Tensor ids = at::arange(rows * (length + 1), at::TensorOptions().device(gpu_).dtype(at::kLong))
                                 .view({rows, length + 1})
                                 .remainder(61);
      std::vector<at::Tensor> grads[3];
      double loss[3];
      for (const int inside : {0, 1, 2}) {
        set_norms_inside(inside > 0);
        set_lean_norms(inside == 2);
        ModelOptions options;
        options.device = gpu_;
        options.dtype = options.stream_dtype = at::kBFloat16;
        options.recompute = policy;
        LanguageModel model(config, options);
        model.params().initialise(3);
        Forward forward;
        forward.training = true;
        const LmLoss l = model.loss(ids, forward, 0);
        torch::autograd::backward({l.total});
        loss[inside] = l.total.item<double>();
        for (const Parameter& p : model.params().all()) grads[inside].push_back(p.value.grad().to(at::kFloat));
      }
      for (const int inside : {1, 2}) {
        EXPECT_NEAR(loss[0], loss[inside], 2e-3 * loss[0]) << scheme << " " << inside;
        for (size_t i = 0; i < grads[0].size(); ++i)
          EXPECT_LE((grads[0][i] - grads[inside][i]).norm().item<double>(),
                    0.03 * grads[0][i].norm().item<double>() + 1e-4)
              << scheme << " " << inside << " parameter " << i;
      }
      bool same = true;  // up to the last bit, as if they were one
      for (size_t i = 0; i < grads[1].size(); ++i) same = same && at::equal(grads[1][i], grads[2][i]);
      EXPECT_FALSE(same) << scheme;
    }
}

}  // namespace
}  // namespace siamese
