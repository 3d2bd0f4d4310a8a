// How a recipe's steps run: what a CPU refuses, what `auto` means, and where a run says it.
#include "train/execution.h"

#include <nlohmann/json.hpp>

#include "tiny.h"
#include "train/lm_task.h"

namespace siamese {
namespace {

TEST(Execution, AutoIsByDevice) {
  EXPECT_EQ(recompute_of(pico_recipe(), at::kCPU), Recompute::none);
  EXPECT_EQ(recompute_of(pico_recipe(), at::kCUDA), Recompute::feed_forward);
  for (const char* name : {"none", "norms", "feed_forward", "block"})
    EXPECT_STREQ(recompute_name(recompute_of(pico_recipe({"train.recompute=" + std::string(name)}), at::kCUDA)), name);
}

TEST(Execution, ACpuIsDeterministicAndHasNoGraph) {
  const Execution e = prepare_execution(pico_recipe({"train.deterministic=false"}), at::kCPU);
  EXPECT_TRUE(e.deterministic);
  EXPECT_FALSE(e.graph);
  EXPECT_EQ(e.describe(), "deterministic");
}

TEST(Execution, WhatACpuCannotIsRefusedByName) {
  const TempFolder out;
  const auto error = [&](const std::string& set) {
    TrainRequest request;
    request.recipe = pico_recipe({set});
    request.out = out.file("run");
    return error_of([&] { quiet_train(request); });
  };
  EXPECT_EQ(error("train.graph=on"), "train.graph is on, but this run is on cpu: use auto");
  for (const char* policy : {"norms", "feed_forward"})
    EXPECT_EQ(
        error("train.recompute=" + std::string(policy)),
        fmt::format("train.recompute is {}, which only the kernels of a GPU can: use none, block or auto on a CPU",
                    policy));
}

// A checkpoint of a GPU run is evaluated on a CPU all the same.
TEST(Execution, ModelsOfSuchRecipesAreBuilt) {
  EXPECT_NO_THROW(make_lm(pico_recipe({"train.recompute=norms", "train.graph=on", "model.vocab_size=9"}), at::kCPU));
}

TEST(Execution, GraphsCannotHoldWhatChangesWithTheStep) {
  Recipe recipe = pico_recipe();
  EXPECT_EQ(graph_obstacle(recipe).key, "");
  recipe.model.drop_path = 0.1;
  EXPECT_EQ(graph_obstacle(recipe).key, "model.drop_path");
  recipe = pico_recipe({"model.moe.experts=4", "train.precision=bfloat16"});
  EXPECT_EQ(graph_obstacle(recipe).key, "");
  EXPECT_EQ(graph_obstacle(recipe, at::kCPU).key, "model.moe.experts");  // no kernels there
  recipe.model.moe.jitter = 0.1;
  EXPECT_EQ(graph_obstacle(recipe).key, "model.moe.jitter");
  recipe.model.moe.jitter = 0, recipe.train.precision = "float32";
  EXPECT_EQ(graph_obstacle(recipe).key, "model.moe.experts");
  recipe = pico_recipe({"model.moe.experts=4", "train.precision=bfloat16", "model.activation=gelu"});
  EXPECT_EQ(graph_obstacle(recipe).key, "model.moe.experts");
}

TEST(Execution, TheRunSaysHowItRan) {
  const TempFolder run;
  TrainRequest request;
  request.recipe = pico_recipe({"train.steps=2"});
  request.out = run.path();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  train(request);
  testing::internal::GetCapturedStderr();
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_NE(printed.find("device  cpu, 1 threads, deterministic; run folder "), std::string::npos) << printed;
  EXPECT_NE(printed.find("recompute none; against none block saves "), std::string::npos) << printed;
  const auto info = nlohmann::json::parse(slurp(run.file("run.json")));
  EXPECT_EQ(info.at("deterministic"), true);
  EXPECT_EQ(info.at("device"), "cpu");
  EXPECT_EQ(info.at("graph"), false);
  EXPECT_EQ(info.at("recompute"), "none");
  EXPECT_EQ(info.at("from_step"), 0);
  EXPECT_FALSE(info.contains("attention"));
}

}  // namespace
}  // namespace siamese
