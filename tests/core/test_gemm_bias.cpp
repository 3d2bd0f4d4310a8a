// Products with a bias, and the sums over columns that are its gradient.
#include <torch/csrc/autograd/autograd.h>

#include "gpu.h"
#include "gradcheck.h"
#include "near.h"
#include "ops/column_sums.h"
#include "ops/gemm.h"
#include "ops/linear.h"

namespace siamese {
namespace {

TEST(GemmBias, GradientsByFiniteDifferences) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const at::Tensor a = random_normal(ta ? at::IntArrayRef{4, 3} : at::IntArrayRef{3, 4}, 1).set_requires_grad(true);
      const at::Tensor b = random_normal(tb ? at::IntArrayRef{5, 4} : at::IntArrayRef{4, 5}, 2).set_requires_grad(true);
      const at::Tensor bias = random_normal({5}, 3).set_requires_grad(true);
      expect_gradients([&] { return gemm(a, b, ta, tb, bias).sin().sum(); }, {{"a", a}, {"b", b}, {"bias", bias}});
    }
  const at::Tensor t = random_normal({2, 3, 4}, 4).set_requires_grad(true);
  expect_gradients([&] { return column_sums(t).sin().sum(); }, {{"t", t}});
}

/// oneDNN's product, which knows no bias.
TEST(GemmBias, ProjectionInFp32) {
  const at::Tensor x = random_normal({2, 100, 24}, 1).to(at::kFloat), w = random_normal({16, 24}, 2).to(at::kFloat);
  std::vector<at::Tensor> leaves{x, w, random_normal({16}, 3).to(at::kFloat)};
  for (at::Tensor& t : leaves) t.set_requires_grad(true);
  const at::Tensor got = project(leaves[0], leaves[1], leaves[2]), want = at::linear(leaves[0], leaves[1], leaves[2]);
  expect_near(got, want, 1e-5, 1e-5, "output");
  const at::Tensor g = random_normal(got.sizes(), 4).to(at::kFloat);
  const auto a = torch::autograd::grad({got}, leaves, {g}), b = torch::autograd::grad({want}, leaves, {g});
  for (size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], 1e-4, 1e-4, "gradient");
}

class GpuGemmBias : public Gpu {};

TEST_F(GpuGemmBias, EqualsPlain) {
  for (const auto& [rows, in, out] :
       std::vector<std::array<int64_t, 3>>{{200, 64, 40}, {1024, 384, 1152}, {1000, 100, 12}, {333, 8, 8}}) {
    auto make = [&](at::IntArrayRef shape, int64_t number) {
      return random_normal(shape, number).to(at::kBFloat16).to(gpu_).set_requires_grad(true);
    };
    const std::vector<at::Tensor> leaves{make({rows, in}, 1), make({out, in}, 2), make({out}, 3)};
    std::vector<at::Tensor> exact;
    for (const at::Tensor& t : leaves) exact.push_back(t.detach().to(at::kDouble).set_requires_grad(true));
    const at::Tensor got = project(leaves[0], leaves[1], leaves[2]), want = at::linear(exact[0], exact[1], exact[2]);
    expect_near(got, want, 0x1.02p-8, 1e-4, "output");
    const at::Tensor g = random_normal(got.sizes(), 4).to(at::kBFloat16).to(gpu_);
    const auto a = torch::autograd::grad({got}, leaves, {g}),
               b = torch::autograd::grad({want}, exact, {g.to(at::kDouble)});
    for (size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], 0x1.02p-8, 1e-3, c10::str("gradient ", i));
  }
}

/// A plan is kept by shape: the bias is that of the call.
TEST_F(GpuGemmBias, EveryCallHasItsOwnBias) {
  auto make = [&](at::IntArrayRef shape, int64_t number) {
    return random_normal(shape, number).to(at::kBFloat16).to(gpu_);
  };
  const at::Tensor a = make({256, 64}, 1), b = make({32, 64}, 2), plain = gemm(a, b, false, true);
  for (const int64_t number : {3, 4, 3}) {
    const at::Tensor bias = make({32}, number);
    expect_near(gemm(a, b, false, true, bias), plain.to(at::kDouble) + bias.to(at::kDouble), 0x1p-7, 1e-2, "product");
    EXPECT_TRUE(at::equal(gemm(a, b, false, true), plain));
  }
}

/// Rows that fill no part, columns that fill no warp; the same bits every time.
TEST_F(GpuGemmBias, ColumnSums) {
  for (const auto type : {at::kBFloat16, at::kFloat})
    for (const auto& [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 8}, {31, 264}, {5000, 1152}, {70001, 40}, {3, 5}}) {
      const at::Tensor t = random_normal({rows, columns}, rows).to(type).to(gpu_);
      const at::Tensor sums = column_sums(t);
      expect_near(sums, t.to(at::kDouble).sum(0), type == at::kBFloat16 ? 0x1.02p-8 : 1e-6,
                  1e-5 * std::sqrt(static_cast<double>(rows)), c10::str(rows, " x ", columns));
      EXPECT_TRUE(at::equal(sums, column_sums(t)));
    }
}

}  // namespace
}  // namespace siamese
