// A mixture's fast path, piece by piece and as a whole: on the CPU against plain operators in fp64, on the GPU against
// the CPU.
#include <torch/csrc/autograd/autograd.h>

#include "gpu.h"
#include "gradcheck.h"
#include "near.h"
#include "ops/experts.h"
#include "ops/experts_padded.h"

namespace siamese {
namespace {

/// Which experts T tokens take: expert 1 never, the last one often.
at::Tensor choose(int64_t tokens, int64_t k, int64_t experts, int64_t number) {
  at::Tensor score = random_normal({tokens, experts}, number);
  score.select(1, 1).fill_(-100);
  score.select(1, experts - 1).add_(1.5);
  return std::get<1>(at::topk(score, k, 1));
}

struct Case {
  int64_t tokens, k, experts, d, width;
};
const Case kCases[] = {
    {1, 1, 2, 8, 8}, {5, 2, 4, 16, 8}, {700, 3, 9, 24, 40}, {3000, 8, 64, 64, 32}, {900, 4, 512, 16, 8}};
// A warp's rounds through a row: as wide as models are, and not even.
const Case kWide[] = {{40, 3, 5, 1032, 8}, {40, 2, 4, 2048, 1024}};

TEST(ExpertsPadded, RowsAreSortedAndAligned) {
  for (const Case& c : kCases)
    for (const int64_t capacity : {int64_t{0}, c.tokens / 3 + 1}) {
      const at::Tensor chosen = choose(c.tokens, c.k, c.experts, 3);
      const PaddedRows rows = expert_sort(chosen, c.experts, capacity);
      EXPECT_TRUE(at::equal(rows.load, at::bincount(chosen.reshape({-1}), {}, c.experts)));
      const int32_t* token = rows.token.const_data_ptr<int32_t>();
      const int32_t* slot = rows.slot.const_data_ptr<int32_t>();
      const int32_t* place = rows.place.const_data_ptr<int32_t>();
      const int64_t* expert = chosen.const_data_ptr<int64_t>();
      int64_t first = 0, kept = 0;
      for (int64_t e = 0; e < c.experts; ++e) {
        const int64_t end = rows.ends[e].item<int64_t>(), load = rows.load[e].item<int64_t>();
        const int64_t taken = capacity > 0 ? std::min(load, capacity) : load;
        EXPECT_EQ(first % 8, 0);
        EXPECT_EQ(end - first, std::max<int64_t>(8, (taken + 7) / 8 * 8));
        int32_t last = -1;
        for (int64_t i = first; i < end; ++i) {
          if (i >= first + taken) {
            EXPECT_TRUE(token[i] == -1 && slot[i] == -1);
            continue;
          }
          EXPECT_EQ(expert[slot[i]], e);
          EXPECT_EQ(token[i], slot[i] / c.k);
          EXPECT_EQ(place[slot[i]], i);
          EXPECT_GT(slot[i], last);
          last = slot[i];
        }
        kept += taken;
        first = end;
      }
      EXPECT_EQ((rows.place >= 0).sum().item<int64_t>(), kept);
      EXPECT_LE(first, rows.token.size(0));
    }
}

struct Leaves {
  at::Tensor x, weights, w1, w2;
  torch::autograd::variable_list all() const { return {x, weights, w1, w2}; }
};
Leaves make_leaves(const Case& c, at::ScalarType type, at::Device device) {
  auto make = [&](at::IntArrayRef shape, int64_t number, double std, at::ScalarType of) {
    return (random_normal(shape, number) * std).to(at::kBFloat16).to(device, of).set_requires_grad(true);
  };
  const double in = 1 / std::sqrt(static_cast<double>(c.d));
  return {make({c.tokens, c.d}, 1, 1, type), make({c.tokens, c.k}, 2, 0.5, type == at::kDouble ? type : at::kFloat),
          make({c.experts, 2 * c.width, c.d}, 5, in, type), make({c.experts, c.d, c.width}, 6, in, type)};
}

TEST(ExpertsPadded, IsThePlainMixture) {
  for (const Case& c : kCases)
    for (const int64_t capacity : {int64_t{0}, c.tokens / 3 + 1}) {
      const Leaves in = make_leaves(c, at::kDouble, at::kCPU);
      const at::Tensor chosen = choose(c.tokens, c.k, c.experts, 3);
      const at::Tensor got = experts_padded(in.x, expert_sort(chosen, c.experts, capacity), in.weights, in.w1, in.w2);
      const at::Tensor want =
          experts_plain(in.x, expert_rows(chosen, c.experts, capacity), in.weights, in.w1, in.w2, Activation::swiglu);
      expect_near(got, want, 1e-12, 1e-12, "output");
      const at::Tensor g = random_normal(got.sizes(), 9);
      const auto a = torch::autograd::grad({got}, in.all(), {g}), b = torch::autograd::grad({want}, in.all(), {g});
      for (size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], 1e-10, 1e-10, c10::str("gradient ", i));
    }
}

TEST(ExpertsPadded, GradientsByFiniteDifferences) {
  const Case c{5, 2, 3, 4, 3};
  const Leaves in = make_leaves(c, at::kDouble, at::kCPU);
  const PaddedRows rows = expert_sort(choose(c.tokens, c.k, c.experts, 3), c.experts, 0);
  expect_gradients([&] { return experts_padded(in.x, rows, in.weights, in.w1, in.w2).sin().sum(); },
                   {{"x", in.x}, {"weights", in.weights}, {"w1", in.w1}, {"w2", in.w2}});
}

class GpuExperts : public Gpu {};

TEST_F(GpuExperts, SortIsTheCpus) {
  for (const Case& c : kCases)
    for (const int64_t capacity : {int64_t{0}, c.tokens / 3 + 1}) {
      const at::Tensor chosen = choose(c.tokens, c.k, c.experts, 3);
      const PaddedRows want = expert_sort(chosen, c.experts, capacity),
                       got = expert_sort(chosen.to(gpu_), c.experts, capacity);
      for (const auto& [a, b] : {std::pair{got.token, want.token},
                                 {got.slot, want.slot},
                                 {got.place, want.place},
                                 {got.ends, want.ends},
                                 {got.load, want.load}})
        EXPECT_TRUE(at::equal(a.cpu(), b)) << c.tokens << " tokens, " << c.experts << " experts";
    }
}

/// The kernels between the products, each by itself.
TEST_F(GpuExperts, RowsAreTheCpus) {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), std::begin(kWide), std::end(kWide));
  for (const Case& c : cases) {
    const PaddedRows rows = expert_sort(choose(c.tokens, c.k, c.experts, 3), c.experts, c.tokens / 3 + 1);
    const int64_t count = rows.token.size(0);
    auto make = [](at::IntArrayRef shape, int64_t number) { return random_normal(shape, number).to(at::kBFloat16); };
    const at::Tensor x = make({c.tokens, c.d}, 1), ys = make({count, c.d}, 2), p = make({count, 2 * c.width}, 3);
    const at::Tensor u = make({count, c.width}, 4), weights = random_normal({c.tokens, c.k}, 5).to(at::kFloat);
    auto run = [&](at::Device device, at::ScalarType type) {
      auto to = [&](const at::Tensor& t) { return t.is_floating_point() ? t.to(device, type) : t.to(device); };
      const at::Tensor w = weights.to(device, type == at::kDouble ? type : at::kFloat), slot = to(rows.slot);
      const auto [gp, h, gw] = weighted_swiglu_backward(to(p), to(u), w, slot);
      return std::vector<at::Tensor>{spread_rows(to(x), to(rows.place), to(rows.token)),
                                     gather_sum(to(ys), to(rows.place), c.k),
                                     weighted_swiglu(to(p), w, slot),
                                     gp,
                                     h,
                                     gw};
    };
    const auto got = run(gpu_, at::kBFloat16), want = run(at::kCPU, at::kDouble);
    EXPECT_TRUE(at::equal(got[0].to(at::kCPU, at::kDouble), want[0])) << "copies, " << c.tokens << " tokens of " << c.d;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LE((got[i].to(at::kCPU, at::kDouble) - want[i]).norm().item<double>(),
                4e-3 * want[i].norm().item<double>())
          << "result " << i << ", " << c.tokens << " tokens";
  }
}

TEST_F(GpuExperts, MixtureIsTheCpus) {
  for (const Case& c : kCases) {
    const Leaves in = make_leaves(c, at::kBFloat16, gpu_), exact = make_leaves(c, at::kDouble, at::kCPU);
    if (!expert_kernels_serve(in.x, in.w1)) GTEST_SKIP() << "no kernels for this GPU";
    for (const int64_t capacity : {int64_t{0}, c.tokens / 3 + 1}) {
      const at::Tensor chosen = choose(c.tokens, c.k, c.experts, 3);
      const at::Tensor on_gpu = chosen.to(gpu_), g = random_normal({c.tokens, c.d}, 9).to(at::kBFloat16);
      auto run = [&](const Leaves& l, const at::Tensor& by) {
        const at::Tensor out = experts_padded(l.x, expert_sort(by, c.experts, capacity), l.weights, l.w1, l.w2);
        auto all = torch::autograd::grad({out}, l.all(), {g.to(out.device(), out.scalar_type())});
        all.insert(all.begin(), out.detach());
        return all;
      };
      const auto got = run(in, on_gpu), again = run(in, on_gpu), want = run(exact, chosen);
      for (size_t i = 0; i < got.size(); ++i) {
        const at::Tensor a = got[i].to(at::kCPU, at::kDouble);
        EXPECT_LE((a - want[i]).norm().item<double>(), 1e-2 * want[i].norm().item<double>())
            << "result " << i << ", " << c.tokens << " tokens";
        EXPECT_TRUE(at::equal(got[i], again[i])) << "result " << i << " twice";
      }
    }
  }
}

}  // namespace
}  // namespace siamese
