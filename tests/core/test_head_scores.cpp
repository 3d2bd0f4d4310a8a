// Loss and hits of the head without gradients: in chunks and as a whole, fused and plain.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "head_cases.h"
#include "ops/head_scores.h"

namespace siamese {
namespace {

class HeadScoresCase : public testing::TestWithParam<HeadCase> {
  const OneThread one_thread_;
};
INSTANTIATE_TEST_SUITE_P(All, HeadScoresCase, testing::ValuesIn(head_cases()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(HeadScoresCase, AreThoseOfTheWholeLogits) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const bool fused : {true, false})
      for (const int64_t chunk : {int64_t{1}, int64_t{4}, GetParam().rows, int64_t{0}}) {
        const HeadInputs in = make_inputs(GetParam(), type, at::kCPU, chunk);
        const HeadScores got = head_scores(in.hidden, in.weight, in.targets, in.options, fused);
        EXPECT_FALSE(got.loss.requires_grad());
        EXPECT_EQ(got.loss.scalar_type(), at::kDouble);
        // The logits as the model would make them: rounded to their type, and so are those of the scores.
        const at::Tensor z = at::linear(in.hidden.detach(), in.weight.detach());
        const double want =
            at::cross_entropy_loss(z.to(at::kDouble), in.targets, {}, at::Reduction::Sum, kHeadIgnore).item<double>();
        const double u = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 1e-2;
        EXPECT_NEAR(got.loss.item<double>(), want, u * (1 + std::abs(want))) << c10::toString(type) << " by " << chunk;
        EXPECT_EQ(got.right.item<int64_t>(), (z.argmax(-1) == in.targets).sum().item<int64_t>());
      }
}

TEST(HeadScores, NoRows) {
  const HeadScores got = head_scores(at::empty({0, 4}), at::ones({9, 4}), at::empty({0}, at::kLong));
  EXPECT_EQ(got.loss.item<double>(), 0.0);
  EXPECT_EQ(got.right.item<int64_t>(), 0);
}

}  // namespace
}  // namespace siamese
