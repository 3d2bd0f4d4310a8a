// SwiGLU and RoPE: fused against plain in every type, strided inputs, gradients, accuracy of the vectorised exp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "gradcheck.h"
#include "kernels/exp.h"
#include "leaves.h"
#include "ops/activation.h"
#include "ops/linear.h"
#include "ops/rope.h"

namespace siamese {
namespace {

double tolerance(at::ScalarType type) { return type == at::kDouble ? 1e-13 : type == at::kFloat ? 2e-6 : 2e-2; }

double worst(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / (b.abs().max() + 1e-6)).to(at::kDouble).item<double>();
}

TEST(Swiglu, FusedIsPlain) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const int64_t width : {1, 3, 16, 129, 1024}) {
      const at::Tensor p = (3 * at::randn({5, 2 * width}, at::kDouble)).to(type).set_requires_grad(true);
      const at::Tensor q = p.detach().clone().set_requires_grad(true), g = at::randn({5, width}, at::kDouble).to(type);
      const at::Tensor a = activate(p, Activation::swiglu), b = activate_plain(q, Activation::swiglu);
      EXPECT_LE(worst(a, b), tolerance(type)) << width;
      torch::autograd::backward({a}, {g});
      torch::autograd::backward({b}, {g});
      EXPECT_LE(worst(p.grad(), q.grad()), tolerance(type)) << width;
    }
}

TEST(Swiglu, GradientsByFiniteDifferences) {
  const at::Tensor p = at::randn({3, 2, 10}, at::kDouble).set_requires_grad(true);
  expect_gradients([&] { return activate(p, Activation::swiglu).sin().sum(); }, {{"p", p}});
}

/// What the operators do on a GPU that has no kernel for the width or the type.
TEST(Activation, PlainOperatorsAreTheFormulas) {
  for (const Activation kind : {Activation::swiglu, Activation::gelu, Activation::gelu_tanh})
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
      for (const int64_t width : {1, 7, 16}) {
        const int64_t columns = kind == Activation::swiglu ? 2 * width : width, number = static_cast<int64_t>(kind);
        // Not dense, and so many that the largest is one: errors are measured against it.
        const at::Tensor p = (3 * random_normal({columns, 64}, width)).to(type).t();
        const at::Tensor q = p.to(at::kDouble).set_requires_grad(true), want = activate_plain(q, kind);
        const at::Tensor g = random_normal({64, width}, 100 + width).to(type);
        torch::autograd::backward({want}, {g.to(at::kDouble)});
        const auto [gp, again] = activation_backward_plain(g, p, number, /*want_output=*/true);
        for (const at::Tensor& out : {activation_forward_plain(p, number), again}) {
          EXPECT_LE(worst(out.to(at::kDouble), want), tolerance(type)) << width;
          EXPECT_TRUE(out.is_contiguous() && out.scalar_type() == type);
        }
        EXPECT_LE(worst(gp.to(at::kDouble), q.grad()), tolerance(type)) << width;
        EXPECT_TRUE(gp.is_contiguous() && gp.scalar_type() == type);
        EXPECT_EQ(std::get<1>(activation_backward_plain(g, p, number, false)).numel(), 0);
        EXPECT_THROW(activation_forward_plain(p, 3), c10::Error);
      }
}

TEST(Swiglu, ExtremeGatesStayFinite) {
  const at::Tensor p = at::tensor({1.0f, 1.0f, 1.0f, -200.0f, 200.0f, 0.0f}).view({1, 6});
  const at::Tensor out = activate(p, Activation::swiglu);
  EXPECT_TRUE(at::isfinite(out).all().item<bool>());
  EXPECT_NEAR(out[0][0].item<float>(), 0.0f, 1e-30f);
  EXPECT_EQ(out[0][1].item<float>(), 200.0f);
}

TEST(Exp, IsWithinFourUlp) {
  for (float x = -87.0f; x < 88.5f; x += 0.0137f) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_LE(std::abs(kernels::fast_exp(x) - exact) / exact, 4 * 0x1p-24) << x;
  }
  EXPECT_TRUE(std::isinf(kernels::fast_exp(100.0f)));
  EXPECT_TRUE(std::isnan(kernels::fast_exp(NAN)));
}

TEST(Rope, FusedIsPlainOnStridedInput) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor whole = at::randn({2, 7, 6, 10}, at::kDouble).to(type).set_requires_grad(true);
    const at::Tensor again = whole.detach().clone().set_requires_grad(true);
    const at::Tensor angle = at::randn({7, 5}, at::kDouble).to(type == at::kDouble ? at::kDouble : at::kFloat);
    const at::Tensor a = rope(whole.slice(2, 1, 4), angle.cos(), angle.sin());
    const at::Tensor b = rope_plain(again.slice(2, 1, 4), angle.cos(), angle.sin());
    EXPECT_LE(worst(a, b), tolerance(type));
    const at::Tensor g = at::randn(a.sizes(), at::kDouble).to(type);
    torch::autograd::backward({a}, {g});
    torch::autograd::backward({b}, {g});
    EXPECT_LE(worst(whole.grad(), again.grad()), tolerance(type));
  }
}

TEST(Rope, GradientsByFiniteDifferences) {
  const at::Tensor t = at::randn({1, 4, 2, 6}, at::kDouble).set_requires_grad(true),
                   angle = at::randn({4, 3}, at::kDouble);
  expect_gradients([&] { return rope(t, angle.cos(), angle.sin()).sin().sum(); }, {{"t", t}});
}

TEST(Project, IsTheProductOnEitherPath) {
  for (const int64_t rows : {3, 127, 128, 300}) {
    const at::Tensor x = at::randn({rows, 33}).set_requires_grad(true), w = at::randn({17, 33}).set_requires_grad(true);
    const at::Tensor bias = at::randn({17}).set_requires_grad(true);
    const at::Tensor out = project(x, w, bias);
    const at::Tensor want = at::matmul(x.to(at::kDouble), w.to(at::kDouble).t()) + bias;
    EXPECT_LE(worst(out.to(at::kDouble), want), 2e-6);
    const at::Tensor g = at::randn(out.sizes());
    torch::autograd::backward({out}, {g});
    EXPECT_LE(worst(x.grad().to(at::kDouble), at::matmul(g.to(at::kDouble), w.to(at::kDouble))), 2e-6);
    EXPECT_LE(worst(w.grad().to(at::kDouble), at::matmul(g.t().to(at::kDouble), x.to(at::kDouble))), 5e-6);
    EXPECT_LE(worst(bias.grad(), g.sum(0)), 5e-6);
  }
}

}  // namespace
}  // namespace siamese
