// Mixtures of experts in recipes: sizes left open, keys that need experts, combinations that are refused.
#include <gtest/gtest.h>

#include "recipe/recipe.h"
#include "recipe_errors.h"

namespace siamese {
namespace {

using namespace recipe_test;

TEST(RecipeMoe, DefaultsRouteAsOlmoe) {
  const MoeConfig m = parse("model: {moe: {experts: 8}}").model.moe;
  EXPECT_EQ(m.top_k, 2);
  EXPECT_EQ(m.expert_hidden_size, 1024);  // half of the dense 2048
  EXPECT_EQ(m.score, "softmax");
  EXPECT_FALSE(m.renormalize);
  EXPECT_EQ(m.balance, "loss");
  EXPECT_EQ(m.balance_weight, 0.01);
  EXPECT_EQ(m.router_z_weight, 0.001);
  EXPECT_EQ(m.capacity_factor, 0);
  EXPECT_EQ(m.jitter, 0);
  EXPECT_EQ(parse("model: {mlp_hidden_size: 100, moe: {experts: 8, top_k: 3}}").model.moe.expert_hidden_size, 48);
  EXPECT_EQ(parse("").model.moe, MoeConfig{});
}

TEST(RecipeMoe, ImpossibleCombinationsNameTheirKeys) {
  const std::pair<const char*, const char*> cases[] = {
      {"model: {moe: {top_k: 4}}", "x.yaml:1: model.moe.top_k needs model.moe.experts above 0"},
      {"model: {moe: {experts: 4, top_k: 5}}", "x.yaml:1: model.moe.top_k (5) is more than model.moe.experts (4)"},
      {"model: {moe: {experts: 4, dense_blocks: 6}}",
       "x.yaml:1: model.moe.dense_blocks (6) leaves no block of model.n_layers (6) to the experts"},
      {"model: {bias: true, moe: {experts: 4}}",
       "x.yaml:1: model.bias does not go with model.moe.experts (4): experts have no biases"},
      {"model: {moe: {experts: 4, expert_hidden_size: 33}}",
       "x.yaml:1: model.moe.expert_hidden_size (33) must be even: model.activation swiglu splits it in two halves"},
      {"model: {family: deit, moe: {experts: 4}}", "x.yaml:1: model.moe.experts (4) is for model.family lm, not deit"},
      {"model: {moe: {experts: 4, bias_rate: 0.1}}",
       "x.yaml:1: model.moe.bias_rate is an option of bias; model.moe.balance is loss"},
      {"model: {moe: {experts: 4, balance: bias, balance_weight: 0.1}}",
       "x.yaml:1: model.moe.balance_weight is an option of loss; model.moe.balance is bias"},
      {"model: {moe: {experts: 4}}\ntrain: {graph: 'on'}",
       "x.yaml:2: train.graph is on, but model.moe.experts takes plain operators here, which ask the GPU how many "
       "tokens each expert has: one of the two has to go"}};
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(yaml), message);
  EXPECT_TRUE(contains(error_of("model: {moe: {experts: 4, score: relu}}"), "softmax"));
  EXPECT_TRUE(contains(error_of("model: {moe: {num_experts: 4}}"), "model.moe.experts"));
  EXPECT_TRUE(contains(error_of("model: {moe: {experts: -1}}"), "model.moe.experts"));
  EXPECT_TRUE(contains(error_of("model: {moe: {experts: 4, jitter: 1}}"), "model.moe.jitter"));
}

TEST(RecipeMoe, NoExpertsLaterForgetTheRest) {
  const char* yaml = "model: {moe: {experts: 8, top_k: 4, renormalize: true}}";
  EXPECT_EQ(parse(yaml, {"model.moe.experts=0"}).model.moe, MoeConfig{});
  EXPECT_TRUE(
      contains(error_of(yaml, {"model.moe.experts=0", "model.moe.top_k=3"}), "needs model.moe.experts above 0"));
}

TEST(RecipeMoe, PrintedRecipesReadBack) {
  for (const char* yaml : {"model: {moe: {experts: 8, top_k: 4, renormalize: true, shared_experts: 1}}",
                           "model: {moe: {experts: 8, balance: bias, bias_rate: 0.01, score: sigmoid, jitter: 0.1}}"}) {
    const Recipe r = parse(yaml);
    EXPECT_EQ(parse(to_yaml(r)), r);
  }
}

}  // namespace
}  // namespace siamese
