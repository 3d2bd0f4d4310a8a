// The pass before attention by rows (kernels/cuda/qkv_rope_rows.h): bf16 heads of 64 and 128 with norms, from one token
// to enough for a warp's ring to come round several times. Held to the plain path in fp64 from the same inputs, so that
// nothing but fp32 sums and one rounding of each result lies between: a row left out of a gain's sum would show.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "gpu.h"
#include "ops/qkv_rope.h"
#include "ops/random.h"
#include "util/philox.h"

namespace siamese {
namespace {

struct RopeCase {
  int64_t dim, heads, kv_heads, batch, length;
  bool norm[3];
  NormKind kind = NormKind::rms;
  bool affine = true;
};
constexpr bool kQk[3] = {true, true, false}, kQkv[3] = {true, true, true}, kV[3] = {false, false, true};

class GpuQkvRope : public Gpu {
 protected:
  /// |got - want| ≤ one rounding to bf16 + noise; NaN is never near.
  static void near(const at::Tensor& got, const at::Tensor& want, double noise, const std::string& what) {
    ASSERT_EQ(got.sizes(), want.sizes()) << what;
    if (got.numel() == 0) return;
    const at::Tensor a = got.to(at::kDouble), excess = (a - want).abs() - (want.abs() * 0x1.02p-8 + noise);
    EXPECT_LE(excess.max().item<double>(), 0.0) << what << ": differs by " << (a - want).abs().max().item<double>();
  }
  at::Tensor noise(at::IntArrayRef shape, double mean, double std) {  // made on the GPU: there are many
    at::Tensor t = at::empty(shape, at::TensorOptions().device(gpu_).dtype(at::kFloat));
    truncated_normal_(t, 1.0, 0.0, {20260101, number_++, kTestSite, 0});
    return (t * std + mean).to(at::kBFloat16);
  }
  AttentionCore core_of(const RopeCase& c) {
    AttentionCore core;
    core.heads = c.heads, core.kv_heads = c.kv_heads, core.head_dim = c.dim;
    const at::Tensor angle = at::arange(c.length * c.dim / 2, at::kDouble).view({c.length, c.dim / 2}) * 0.37;
    core.cos = angle.cos().to(at::kFloat).to(gpu_), core.sin = angle.sin().to(at::kFloat).to(gpu_);
    for (int i = 0; i < 3; ++i) {
      if (!c.norm[i]) continue;
      core.norm[i] = {true, c.kind, 1e-5, {}, {}};
      if (c.affine) core.norm[i].gain = noise({c.dim}, 1, 0.3);
      if (c.affine && c.kind == NormKind::layer) core.norm[i].bias = noise({c.dim}, 0, 0.3);
    }
    return core;
  }
  /// Gradients of q, k, v: views of one packed tensor, or q and k with the heads before the tokens.
  std::vector<at::Tensor> gradients_of(const RopeCase& c, bool heads_first) {
    const int64_t all = c.heads + 2 * c.kv_heads;
    std::vector<at::Tensor> g =
        noise({c.batch, c.length, all, c.dim}, 0, 1).split_with_sizes({c.heads, c.kv_heads, c.kv_heads}, 2);
    if (heads_first)
      for (size_t i = 0; i < 2; ++i) g[i] = g[i].transpose(1, 2).contiguous().transpose(1, 2);
    return g;
  }

  void check(const RopeCase& c) {
    SCOPED_TRACE(fmt::format("({} + 2*{}) x {}, {} x {} tokens, norms {}{}{} {}{}", c.heads, c.kv_heads, c.dim, c.batch,
                             c.length, c.norm[0], c.norm[1], c.norm[2], c.kind == NormKind::layer ? "layer" : "rms",
                             c.affine ? "" : ", no gains"));
    const AttentionCore core = core_of(c);
    AttentionCore exact = core;
    exact.cos = core.cos.to(at::kDouble), exact.sin = core.sin.to(at::kDouble);
    for (Norm& n : exact.norm)
      for (at::Tensor* t : {&n.gain, &n.bias})
        if (t->defined()) *t = t->to(at::kDouble);
    const at::Tensor qkv = noise({c.batch, c.length, c.heads + 2 * c.kv_heads, c.dim}, 0.3, 1.4);
    const at::Tensor wide = qkv.to(at::kDouble), out = at::full_like(qkv, std::nan(""));
    qkv_rope_out(out, qkv, core);
    near(out, qkv_rope_plain(wide, exact), 2e-5, "output");
    const double rows = static_cast<double>(c.batch * c.length * c.heads);
    for (const bool heads_first : {false, true}) {
      const auto g = gradients_of(c, heads_first);
      const auto got = qkv_rope_backward(g[0], g[1], g[2], qkv, core);
      const auto want =
          qkv_rope_backward_plain(g[0].to(at::kDouble), g[1].to(at::kDouble), g[2].to(at::kDouble), wide, exact);
      near(got[0], want[0], 2e-5, "gradient of qkv");
      for (size_t i = 1; i < 7; ++i) near(got[i], want[i], 1e-4 + 1e-5 * std::sqrt(rows), fmt::format("sum {}", i));
    }
  }

  int64_t number_ = 1;
};

TEST_F(GpuQkvRope, EqualsPlainAtAllSizes) {
  struct Shape {
    int64_t heads, kv_heads, batch, length;
  };
  // Few and many heads a unit, odd numbers of heads and tokens, less than a unit and several units a warp.
  const Shape shapes[] = {{1, 1, 1, 1},    {5, 1, 3, 7}, {3, 3, 1, 29},    {12, 2, 2, 33},    {16, 16, 3, 101},
                          {32, 8, 1, 513}, {7, 7, 5, 1}, {15, 5, 7, 1031}, {16, 16, 4, 1031}, {32, 8, 5, 1023}};
  for (const int64_t dim : {64, 128})
    for (const Shape& s : shapes) {
      if (under_sanitizer() && s.heads * s.batch * s.length > 20'000) continue;
      for (const auto* norm : {&kQk, &kQkv})
        for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
          RopeCase c{dim, s.heads, s.kv_heads, s.batch, s.length, {}, kind};
          std::copy(std::begin(*norm), std::end(*norm), c.norm);
          check(c);
          if (HasFailure()) return;  // one size says enough
        }
    }
}

TEST_F(GpuQkvRope, EqualsPlainWithoutGainsAndWithOneNorm) {
  for (const int64_t dim : {64, 128})
    for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
      check({dim, 6, 3, 2, 77, {true, true, true}, kind, false});
      check({dim, 6, 3, 2, 77, {kV[0], kV[1], kV[2]}, kind});
      check({dim, 8, 2, 2, 77, {true, false, false}, kind});
      check({dim, 8, 2, 2, 77, {false, true, false}, kind});
    }
}

TEST_F(GpuQkvRope, SameBitsTwice) {
  for (const int64_t dim : {64, 128})
    for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
      const RopeCase c{dim, 16, 4, 4, 1031, {true, true, true}, kind};
      const AttentionCore core = core_of(c);
      const at::Tensor qkv = noise({4, 1031, 24, dim}, 0, 1);
      const auto g = gradients_of(c, false);
      const auto a = qkv_rope_backward(g[0], g[1], g[2], qkv, core), b = qkv_rope_backward(g[0], g[1], g[2], qkv, core);
      for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
    }
}

}  // namespace
}  // namespace siamese
