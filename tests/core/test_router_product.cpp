// The router's product in parts against fp64.
#include <torch/csrc/autograd/autograd.h>

#include "gpu.h"
#include "gradcheck.h"
#include "near.h"
#include "ops/router_product.h"

namespace siamese {
namespace {

void check(at::Device device) {
  const at::Tensor x = random_normal({37, 64}, 1).to(at::kBFloat16), w = random_normal({10, 64}, 2).to(at::kFloat),
                   g = random_normal({37, 10}, 3).to(at::kFloat);
  const at::Tensor parts = bf16_parts(w.to(device)).to(at::kCPU, at::kDouble);
  EXPECT_TRUE(at::equal(parts.sum(0), w.to(at::kDouble)));
  auto run = [&](at::Device where, bool exact) {
    const at::Tensor a = x.to(where, exact ? at::kDouble : at::kBFloat16).set_requires_grad(true),
                     b = w.to(where, exact ? at::kDouble : at::kFloat).set_requires_grad(true);
    const at::Tensor out = exact ? at::linear(a, b) : router_product(a, b);
    auto all = torch::autograd::grad({out}, {a, b}, {g.to(where, out.scalar_type())});
    return std::vector<at::Tensor>{out.detach(), all[0], all[1]};
  };
  const auto got = run(device, false), want = run(at::kCPU, true);
  for (size_t i = 0; i < got.size(); ++i) {
    const at::Tensor a = got[i].to(at::kCPU, at::kDouble);
    const double tolerance = got[i].scalar_type() == at::kBFloat16 ? 2e-3 : 2e-6;  // of bf16 one rounding: 1.7e-3
    EXPECT_LE((a - want[i]).norm().item<double>(), tolerance * want[i].norm().item<double>()) << "result " << i;
  }
}

TEST(RouterProduct, IsFp32s) { check(at::kCPU); }

class GpuRouter : public Gpu {};
TEST_F(GpuRouter, ProductIsFp32s) { check(gpu_); }

}  // namespace
}  // namespace siamese
