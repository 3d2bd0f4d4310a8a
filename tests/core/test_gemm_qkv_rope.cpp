// The projection with rotary positions in it: gradients and sizes on the CPU; on the GPU the fused kernel against a
// product and the pass before attention, which it must equal to the last bit but for the product's own rounding.
#include "ops/gemm_qkv_rope.h"

#include "both_forms.h"
#include "gpu.h"
#include "gradcheck.h"
#include "near.h"
#include "ops/gemm.h"
#include "ops/qkv_rope.h"

namespace siamese {
namespace {

/// The heads of a projection [m, all·dim] turned by the pass before attention.
at::Tensor turned(const at::Tensor& p, const AttentionCore& core) {
  const int64_t length = core.cos.size(0);
  const at::Tensor out = p.clone(),
                   packed = out.view({p.size(0) / length, length, core.heads + 2 * core.kv_heads, core.head_dim});
  qkv_rope_out(packed, packed, core);
  return out;
}

constexpr int64_t kHeads = 3, kKvHeads = 2, kDim = 6, kLength = 5;

struct Inputs {
  at::Tensor x, w;
  AttentionCore core;

  explicit Inputs(at::ScalarType type) {
    x = random_normal({3 * kLength, 4}, 1).to(type).set_requires_grad(true);
    w = random_normal({(kHeads + 2 * kKvHeads) * kDim, 4}, 2).to(type).set_requires_grad(true);
    const at::Tensor angle = random_normal({kLength, kDim / 2}, 3).to(type == at::kDouble ? at::kDouble : at::kFloat);
    core.heads = kHeads, core.kv_heads = kKvHeads, core.head_dim = kDim;
    core.cos = angle.cos(), core.sin = angle.sin();
  }
  at::Tensor operator()() const { return gemm_qkv_rope(x, w, core.cos, core.sin, core.heads, core.kv_heads, kLength); }
};

TEST(GemmQkvRope, GradientsByFiniteDifferences) {
  const Inputs in(at::kDouble);
  expect_gradients([&] { return in().sin().sum(); }, {{"x", in.x}, {"w", in.w}});
}

TEST(GemmQkvRope, IsProductAndRotation) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    Inputs in(type);
    const at::Tensor want = turned(gemm(in.x, in.w, false, true).detach(), in.core);
    EXPECT_TRUE(at::equal(in(), want)) << type;
    in.core.cos = at::cat({in.core.cos, in.core.cos}), in.core.sin = at::cat({in.core.sin, in.core.sin});
    EXPECT_TRUE(at::equal(in(), want)) << type << " with a table for more positions";
  }
}

/// What comes is turned; what goes back is taken for the gradient before the turn, however it lies in memory.
TEST(GemmQkvRope, ProjectTurnedHasTheProductsGradients) {
  const Inputs in(at::kDouble);
  const at::Tensor x = in.x.detach().view({3, kLength, 4}).set_requires_grad(true);
  const at::Tensor out = project_turned(x, in.w, {in.core.cos, in.core.sin, kHeads, kKvHeads});
  EXPECT_TRUE(at::equal(out.flatten(0, 1), in()));
  const at::Tensor g = random_normal({out.size(2), kLength, 3}, 4).permute({2, 1, 0});
  const auto got = torch::autograd::grad({out}, {x, in.w}, {g});
  EXPECT_TRUE(at::allclose(got[0], at::matmul(g, in.w), 1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(got[1], at::matmul(g.flatten(0, 1).t(), in.x), 1e-12, 1e-12));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(project_turned(x, in.w, {in.core.cos, in.core.sin, kHeads, kKvHeads}).requires_grad());
}

TEST(GemmQkvRope, ShapesAreKnownWithoutNumbers) {
  const Inputs in(at::kBFloat16);
  auto meta = [](const at::Tensor& t) { return t.detach().to(at::kMeta).set_requires_grad(true); };
  const at::Tensor out = gemm_qkv_rope(meta(in.x), meta(in.w), in.core.cos.to(at::kMeta), in.core.sin.to(at::kMeta),
                                       kHeads, kKvHeads, kLength);
  EXPECT_EQ(out.sizes(), in().sizes());
  EXPECT_TRUE(out.requires_grad() && out.scalar_type() == at::kBFloat16);
}

TEST(GemmQkvRope, RefusesSizesThatDoNotFit) {
  const Inputs in(at::kFloat);
  const at::Tensor &x = in.x, &w = in.w, &cos = in.core.cos, &sin = in.core.sin;
  EXPECT_THROW(gemm_qkv_rope(x.narrow(1, 0, 3), w, cos, sin, kHeads, kKvHeads, kLength), c10::Error);
  EXPECT_THROW(gemm_qkv_rope(x, w, cos, sin, kHeads + 1, kKvHeads, kLength), c10::Error);
  EXPECT_THROW(gemm_qkv_rope(x, w, cos, sin, kHeads, kKvHeads, 4), c10::Error);
  EXPECT_THROW(gemm_qkv_rope(x, w, cos, sin, kHeads, kKvHeads, 15), c10::Error);
  EXPECT_THROW(gemm_qkv_rope(x, w, cos, sin.narrow(0, 0, 4), kHeads, kKvHeads, kLength), c10::Error);
}

/// Large enough for the fused kernel: whole tiles; fewer positions than a tile's rows, and many more; rows and heads
/// that fill no tile, heads of q, k and v in one tile.
struct Size {
  int64_t batch, length, heads, kv_heads, k;
};
std::vector<Size> sizes() {
  if (under_sanitizer()) return {{97, 301, 5, 2, 512}};
  return {{16, 2048, 16, 16, 1024}, {1901, 23, 4, 1, 64}, {97, 301, 5, 2, 192},
          {43777, 1, 4, 1, 128},    {5, 5471, 8, 1, 512}, {7, 1171, 32, 8, 960}};
}

/// Waves instead of random numbers: the same on every machine.
at::Tensor wave(int64_t rows, int64_t columns, double step, at::Device device) {
  return at::arange(rows * columns, at::TensorOptions().device(device).dtype(at::kFloat))
      .mul_(step)
      .sin_()
      .view({rows, columns});
}

TEST_F(Gpu, RopeInTheProductIsProductAndRotation) {
  for (const auto& [batch, length, heads, kv_heads, k] : sizes()) {
    const int64_t m = batch * length;
    const std::string what = c10::str(batch, " x ", length, " tokens, ", heads, " + 2*", kv_heads, " heads, k ", k);
    const at::Tensor x = wave(m, k, 0.7371, gpu_).to(at::kBFloat16);
    const at::Tensor w = (wave((heads + 2 * kv_heads) * 64, k, 1.3113, gpu_) * 0.1).to(at::kBFloat16);
    AttentionCore core;
    core.heads = heads, core.kv_heads = kv_heads, core.head_dim = 64;
    const at::Tensor angle = wave(length, 32, 0.9173, gpu_) * 10;
    core.cos = angle.cos(), core.sin = angle.sin();
    auto product = [&](const at::Tensor& cos, const at::Tensor& sin) {
      return gemm_qkv_rope(x, w, cos, sin, heads, kv_heads, length);
    };
    // Turned by no angle: the same kernel's product, rounded.
    const at::Tensor p = product(at::ones_like(core.cos), at::zeros_like(core.sin));
    expect_near(p, at::mm(x.to(at::kFloat), w.to(at::kFloat).t()), 8e-3, 1e-5, "product of " + what);
    const auto [out] = in_both_forms([&] { return std::tuple(product(core.cos, core.sin)); }, what);
    EXPECT_TRUE(at::equal(out, turned(p, core))) << what;
    EXPECT_TRUE(at::equal(out, product(core.cos, core.sin))) << what << " twice";
  }
}

}  // namespace
}  // namespace siamese
