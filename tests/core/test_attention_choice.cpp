// Which library attends: the rule, and the examples it is judged by. The trial itself needs a GPU:
// test_gpu_choices.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>

#include "ops/attention_choice.h"

namespace siamese {
namespace {

std::function<double()> gives(double error) {
  return [error] { return error; };
}
std::function<double()> refuses(const char* why) {
  return [why]() -> double { throw std::runtime_error(std::string(why) + "\nand a stack"); };
}

TEST(AttentionChoice, CudnnMustBeAsGoodAsFlash) {
  EXPECT_TRUE(choose_attention(91900, gives(0.003), gives(0.003)).cudnn);
  EXPECT_TRUE(choose_attention(91501, gives(0.006), gives(0.003)).cudnn);
  EXPECT_FALSE(choose_attention(91900, gives(0.0061), gives(0.003)).cudnn);
  EXPECT_FALSE(choose_attention(91900, gives(1e30), gives(0.003)).cudnn);
  EXPECT_EQ(choose_attention(91900, gives(0.25), gives(0.125)).why,
            "cuDNN's error against plain attention is 0.25, flash attention's 0.125");
}

TEST(AttentionChoice, AnOldCudnnIsNotEvenTried) {
  for (const long version : {0L, 8907L, 91500L}) {
    const AttentionChoice c = choose_attention(
        version,
        []() -> double {
          ADD_FAILURE() << "tried";
          return 0;
        },
        gives(0.003));
    EXPECT_FALSE(c.cudnn);
  }
  EXPECT_EQ(choose_attention(91402, gives(0), gives(0)).why, "cuDNN 9.14.2 is older than 9.15.1");
}

TEST(AttentionChoice, WithoutFlashCudnnIsJudgedAlone) {
  const AttentionChoice good = choose_attention(91900, gives(0.02), refuses("heads")),
                        bad = choose_attention(91900, gives(0.2), refuses("heads"));
  EXPECT_TRUE(good.cudnn);
  EXPECT_FALSE(bad.cudnn);
  EXPECT_NE(bad.why.find("flash attention refused: heads"), std::string::npos) << bad.why;
  EXPECT_EQ(bad.why.find('\n'), std::string::npos);
  EXPECT_EQ(choose_attention(91900, refuses("dim 24"), gives(0.003)).why, "cuDNN refused: dim 24");
  EXPECT_FALSE(choose_attention(91900, refuses("dim 24"), gives(0.003)).cudnn);
}

/// By LibTorch's own attention and autograd, in fp64.
AttentionResult exact(const AttentionExample& e) {
  torch::autograd::variable_list leaves;
  for (const at::Tensor* t : {&e.heads.q, &e.heads.k, &e.heads.v})
    leaves.push_back(t->to(at::kDouble).detach().set_requires_grad(true));
  const int64_t group = e.heads.q.size(2) / e.heads.k.size(2);
  auto all = [&](size_t i) { return leaves[i].transpose(1, 2).repeat_interleave(i == 0 ? 1 : group, 1); };
  const at::Tensor out = at::scaled_dot_product_attention(all(0), all(1), all(2), {}, 0.0, true).transpose(1, 2);
  const auto g = torch::autograd::grad({out}, leaves, {e.g.to(at::kDouble)});
  return {out.detach(), {g[0], g[1], g[2]}};
}

TEST(AttentionChoice, TheExampleIsAttention) {
  for (const AttentionShape& shape : {AttentionShape{2, 2, 16}, AttentionShape{6, 2, 32}, AttentionShape{4, 1, 16}})
    for (const int64_t length : {17, 128}) {
      const AttentionExample e = attention_example(shape, 2, length, at::kCPU);
      EXPECT_EQ(e.heads.q.scalar_type(), at::kBFloat16);
      const AttentionResult want = exact(e);
      EXPECT_LE(attention_error(want, e.wanted), 1e-5) << length;
    }
}

TEST(AttentionChoice, AnErrorAnywhereShows) {
  const AttentionExample e = attention_example({4, 2, 16}, 1, 64, at::kCPU);
  const AttentionResult want = exact(e);
  for (int i = 0; i < 4; ++i) {
    AttentionResult bad = want;
    at::Tensor& t = i == 0 ? bad.out : i == 1 ? bad.gradient.q : i == 2 ? bad.gradient.k : bad.gradient.v;
    t = t.clone();
    t.select(1, 20).mul_(2);  // one token
    EXPECT_GT(attention_error(bad, e.wanted), 0.02) << i;
    t.select(1, 20).fill_(NAN);
    EXPECT_EQ(attention_error(bad, e.wanted), 1e30) << i;
  }
}

}  // namespace
}  // namespace siamese
