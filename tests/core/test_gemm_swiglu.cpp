// Products, and products with SwiGLU in them: gradients on the CPU; on the GPU the fused kernels against a product and
// an activation, which they must equal to the last bit but for the products' own rounding.
#include "ops/gemm_swiglu.h"

#include <torch/csrc/autograd/autograd.h>

#include "both_forms.h"
#include "gpu.h"
#include "gradcheck.h"
#include "near.h"
#include "ops/activation.h"
#include "ops/gemm.h"

namespace siamese {
namespace {

at::Tensor leaf(at::IntArrayRef shape) { return at::randn(shape, at::kDouble).set_requires_grad(true); }

TEST(Gemm, GradientsByFiniteDifferences) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const at::Tensor a = ta ? leaf({4, 3}) : leaf({3, 4}), b = tb ? leaf({5, 4}) : leaf({4, 5});
      expect_gradients([&] { return gemm(a, b, ta, tb).sin().sum(); }, {{"a", a}, {"b", b}});
    }
}

TEST(GemmSwiglu, GradientsByFiniteDifferences) {
  const at::Tensor x = leaf({3, 4}), w = leaf({10, 4});
  auto both = [&] {
    const auto [p, h] = gemm_swiglu(x, w);
    return p.cos().sum() + h.sin().sum();
  };
  expect_gradients(both, {{"x", x}, {"w", w}});
  expect_gradients([&] { return std::get<0>(gemm_swiglu(x, w)).sin().sum(); }, {{"x", x}, {"w", w}});
  expect_gradients([&] { return std::get<1>(gemm_swiglu(x, w)).sin().sum(); }, {{"x", x}, {"w", w}});
}

/// Waves instead of random numbers: the same on every machine.
at::Tensor wave(int64_t rows, int64_t columns, double step, at::Device device) {
  return at::arange(rows * columns, at::TensorOptions().device(device).dtype(at::kFloat))
      .mul_(step)
      .sin_()
      .view({rows, columns})
      .to(at::kBFloat16);
}

/// Large enough for the fused kernels; with tiles cut off in every direction, and without.
struct Size {
  int64_t m, f, k;
};
std::vector<Size> sizes() {
  if (under_sanitizer()) return {{4099, 4104, 512}};
  return {{4096, 4224, 1024}, {4099, 4104, 192}, {4099, 4104, 576}, {130001, 136, 64}, {8193, 2816, 1024}};
}

TEST_F(Gpu, SwigluInTheProductIsProductAndActivation) {
  for (const auto& [m, f, k] : sizes()) {
    const std::string what = c10::str(m, " x ", f, " x ", k);
    const at::Tensor x = wave(m, k, 0.7371, gpu_), w = wave(2 * f, k, 1.3113, gpu_) * 0.1;
    const auto [p, h] = in_both_forms([&] { return gemm_swiglu(x, w); }, what);
    expect_near(p, at::mm(x.to(at::kFloat), w.to(at::kFloat).t()), 8e-3, 1e-5, "P of " + what);
    EXPECT_TRUE(at::equal(h, activate(p, Activation::swiglu))) << what;
    const auto [p2, h2] = gemm_swiglu(x, w);
    EXPECT_TRUE(at::equal(p, p2) && at::equal(h, h2)) << what << " twice";
  }
}

TEST_F(Gpu, SwigluGradientInTheProductIsProductAndActivation) {
  for (const auto& [m, f, k] : sizes()) {
    const std::string what = c10::str(m, " x ", f, " x ", k);
    const at::Tensor g = wave(m, k, 0.5537, gpu_), w = wave(k, f, 1.1719, gpu_) * 0.1,
                     p = wave(m, 2 * f, 0.917, gpu_) * 4;
    const auto [g_p, h] = in_both_forms([&] { return gemm_swiglu_backward(g, w, p); }, what);
    EXPECT_TRUE(at::equal(h, activate(p, Activation::swiglu))) << what;
    // From the unrounded gradient of h: its rounding is the only difference.
    const at::Tensor q = p.to(at::kFloat).set_requires_grad(true);
    torch::autograd::backward({activate_plain(q, Activation::swiglu)}, {at::mm(g.to(at::kFloat), w.to(at::kFloat))});
    expect_near(g_p, q.grad(), 1.2e-2, 1e-4, "g_P of " + what);
    const auto [g_p2, h2] = gemm_swiglu_backward(g, w, p);
    EXPECT_TRUE(at::equal(g_p, g_p2) && at::equal(h, h2)) << what << " twice";
  }
}

}  // namespace
}  // namespace siamese
