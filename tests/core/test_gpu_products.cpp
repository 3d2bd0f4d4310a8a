// Our own product on a GPU (kernels/cuda/gemm_wide.h) against LibTorch's in fp32.
#include "both_forms.h"
#include "gpu.h"
#include "near.h"
#include "ops/gemm.h"

namespace siamese {
namespace {

struct Size {
  int64_t m, n, k;
};
/// Whole tiles and such that are not, more and fewer of them than a GPU takes at a time, deep ones shared by all.
std::vector<Size> sizes() {
  if (under_sanitizer()) return {{520, 264, 328}, {264, 520, 2048}};
  return {{32768, 1024, 2816}, {4104, 2824, 1032}, {1024, 5632, 32768},
          {264, 72, 8200},     {8, 8, 256},        {2816, 1024, 65536}};
}

class GpuOwnProduct : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (!IsSkipped() && gpu_tools()->capability(-1) != 90) GTEST_SKIP() << "our own product is for Hopper";
  }
  at::Tensor numbers(int64_t rows, int64_t columns, double step) const {
    return at::arange(rows * columns, at::TensorOptions().device(gpu_).dtype(at::kFloat))
        .mul_(step)
        .sin_()
        .view({rows, columns})
        .to(at::kBFloat16);
  }
  const Environment always_{"SIAMESE_WOVEN", "16"};
};

TEST_F(GpuOwnProduct, IsLibTorchs) {
  for (const auto& [m, n, k] : sizes())
    for (const auto& [ta, tb] : {std::pair(false, true), {false, false}, {true, false}}) {
      const std::string what = c10::str(m, " x ", n, " x ", k, ta ? " T" : " N", tb ? "T" : "N");
      const at::Tensor a = ta ? numbers(k, m, 0.7371) : numbers(m, k, 0.7371);
      const at::Tensor b = tb ? numbers(n, k, 1.3113) : numbers(k, n, 1.3113);
      const at::Tensor wide_a = a.to(at::kFloat), wide_b = b.to(at::kFloat);
      const at::Tensor got = gemm(a, b, ta, tb);
      expect_near(got, at::mm(ta ? wide_a.t() : wide_a, tb ? wide_b.t() : wide_b), 8e-3, 2e-3, what);
      for (int again = 0; again < 3; ++again) EXPECT_TRUE(at::equal(got, gemm(a, b, ta, tb))) << what << " again";
      // Nothing of cuBLASLt's was chosen for it.
      EXPECT_EQ(gpu_tools()->products().find(c10::str(" ", m, "x", n, "x", k, " ")), std::string::npos) << what;
    }
}

TEST_F(GpuOwnProduct, InAGraphToo) {
  const at::Tensor a = numbers(1032, 264, 0.7371), b = numbers(1032, 4104, 1.3113), want = gemm(a, b, true, false);
  at::Tensor out = at::empty_like(want);
  const std::unique_ptr<StepGraph> graph = gpu_tools()->make_graph();
  for (int run = 0; run < 6; ++run) {
    out.fill_(-1);
    graph->run([&] { out.copy_(gemm(a, b, true, false)); });
    EXPECT_TRUE(at::equal(out, want)) << run;
  }
}

}  // namespace
}  // namespace siamese
