// Training with mixtures: runs repeat and resume digit for digit, biases included; what metrics.jsonl says of routers.
#include <cmath>
#include <nlohmann/json.hpp>

#include "gpu.h"
#include "tiny.h"
#include "train/checkpoint.h"
#include "train/lm_task.h"
#include "train/optimizer.h"
#include "train/router_log.h"
#include "train_request.h"

namespace siamese {
namespace {

using nlohmann::json;

Recipe moe_recipe(std::vector<std::string> more = {}) {
  std::vector<std::string> set = {"model.moe.experts=4", "model.moe.expert_hidden_size=16"};
  set.insert(set.end(), more.begin(), more.end());
  return pico_recipe(set);
}

/// metrics.jsonl without the speed.
std::vector<json> metrics(const std::string& run) {
  std::istringstream in(slurp(run + "/metrics.jsonl"));
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(json::parse(line));
    lines.back().erase("tokens_per_s");
  }
  return lines;
}

std::string stored(const std::string& run, const std::string& file) {
  return slurp(find_checkpoint(run).folder() + "/" + file);
}
std::string weights(const std::string& run) { return stored(run, "model.safetensors"); }

const std::vector<std::string> kBias = {"model.moe.balance=bias", "model.moe.score=sigmoid",
                                        "model.moe.bias_rate=0.01"};

TEST(MixtureTraining, ResumedRunsContinueDigitForDigit) {
  for (std::vector<std::string> how :
       {std::vector<std::string>{"model.moe.jitter=0.1", "train.micro_batch_size=2", "train.ema=0.9"}, kBias}) {
    if (how == kBias) how.insert(how.end(), {"train.micro_batch_size=2", "train.ema=0.9"});
    const TempFolder whole, parts;
    how.push_back("train.schedule=constant");
    const Recipe recipe = moe_recipe(how);
    Recipe shorter = recipe;
    shorter.train.steps = 5;  // where the whole run has a checkpoint too, and ends a line of loads
    quiet_train(request(recipe, whole.path()));
    quiet_train(request(shorter, parts.path()));
    quiet_train(request(recipe, parts.path(), OpenMode::resume));
    for (const char* file : {"model.safetensors", "ema.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(stored(parts.path(), file), stored(whole.path(), file)) << file;
    EXPECT_EQ(metrics(parts.path()), metrics(whole.path()));
  }
}

/// A step that is not finite moves no bias either.
TEST(MixtureTraining, BiasesStayWithTheWeightsAfterABadStep) {
  Recipe recipe = moe_recipe(kBias);
  LmTask task(recipe, at::kCPU);
  Optimizer optimizer(task.params(), recipe.train);
  task.params().initialise(1);
  auto biases = [&] {
    std::vector<at::Tensor> all;
    for (const Parameter& p : task.params().all())
      if (p.kind == ParamKind::state) all.push_back(p.value.clone());
    return at::cat(all);
  };
  task.start(0);
  task.load();
  const at::Tensor before = biases(), loss = task.accumulate([&] { optimizer.collect(); });
  for (const bool bad : {true, false}) {
    task.updated(at::tensor({1.0, 1.0, bad ? 1.0 : 0.0}, at::kDouble));
    EXPECT_EQ(at::equal(biases(), before), bad);
  }
}

/// Balancing by biases may begin from a mixture that had none, and end.
TEST(MixtureTraining, WeightsGoFromOneKindOfBalancingToTheOther) {
  const TempFolder by_loss, by_bias, back;
  quiet_train(request(moe_recipe({"train.steps=2"}), by_loss.path()));
  std::vector<std::string> how = kBias;
  how.push_back("train.steps=2");
  TrainRequest there = request(moe_recipe(how), by_bias.path()),
               again = request(moe_recipe({"train.steps=2"}), back.path());
  there.init_from = by_loss.path(), again.init_from = by_bias.path();
  quiet_train(there);
  quiet_train(again);
  EXPECT_EQ(metrics(back.path()).size(), metrics(by_loss.path()).size());
}

/// On a GPU in bf16 the experts' kernels run, also under recomputation; losses repeat.
TEST_F(Gpu, MixturesTrainInBf16) {
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{}, kBias,
        std::vector<std::string>{"train.recompute=block", "model.moe.shared_experts=1"},
        std::vector<std::string>{"model.moe.capacity_factor=1.0", "train.micro_batch_size=2"}}) {
    std::vector<std::vector<json>> runs;
    for (int i = 0; i < 2; ++i) {
      const TempFolder run;
      std::vector<std::string> all = {"model.d_model=64", "model.n_heads=2",          "model.n_layers=2",
                                      "train.steps=4",    "train.precision=bfloat16", "train.deterministic=true"};
      all.insert(all.end(), how.begin(), how.end());
      TrainRequest r = request(moe_recipe(all), run.path());
      r.device = gpu_;
      quiet_train(r);
      runs.push_back(metrics(run.path()));
    }
    EXPECT_EQ(runs[0], runs[1]);
    EXPECT_LT(runs[0].front().at("loss").get<double>(), 8.0);
  }
  set_deterministic(false);
}

TEST(MixtureTraining, TwoRunsAreTheSame) {
  const TempFolder a, b;
  for (const TempFolder* run : {&a, &b}) quiet_train(request(moe_recipe(), run->path()));
  EXPECT_EQ(metrics(a.path()), metrics(b.path()));
  EXPECT_EQ(weights(a.path()), weights(b.path()));
}

TEST(MixtureTraining, BiasesAreInCheckpointsAndAverages) {
  const TempFolder run;
  std::vector<std::string> set = kBias;
  set.push_back("train.ema=0.9");
  quiet_train(request(moe_recipe(set), run.path()));
  const Checkpoint c = find_checkpoint(run.path());
  const char* name = "transformer.blocks.1.moe.balance_bias";
  const at::Tensor bias = to_tensor(c.open("model.safetensors").at(name));
  EXPECT_EQ(bias.sizes(), at::IntArrayRef{4});
  EXPECT_GT(bias.abs().max().item<double>(), 0.005);
  EXPECT_TRUE(at::equal(bias, to_tensor(c.open("ema.safetensors").at(name))));
  EXPECT_FALSE(c.open("optimizer.safetensors").tensors().contains(std::string("m.") + name));
}

TEST(MixtureTraining, MetricsTellOfRouters) {
  const TempFolder run;
  quiet_train(request(moe_recipe({"model.moe.capacity_factor=0.5", "train.micro_batch_size=2"}), run.path()));
  std::vector<std::vector<int64_t>> sum(2, std::vector<int64_t>(4, 0));
  int64_t steps = 0, summed = 0;
  for (const json& j : metrics(run.path())) {
    if (j.contains("loss")) {
      ++steps;
      EXPECT_GT(j.at("balance_loss").get<double>(), 0.9);
      EXPECT_GT(j.at("router_z").get<double>(), 0);
      EXPECT_GT(j.at("router_entropy").get<double>(), 0.5);
      EXPECT_LE(j.at("router_entropy").get<double>(), 1.0);
      EXPECT_GE(j.at("dropped").get<double>(), 0.5 - 1e-6);  // even experts would drop half
      EXPECT_LE(j.at("dropped").get<double>(), 0.8);
      EXPECT_LE(j.at("load_min").get<double>(), 1);
      EXPECT_GE(j.at("load_max").get<double>(), 1);
      EXPECT_GE(j.at("dead_experts").get<double>(), 0);
    } else if (j.contains("expert_load")) {
      EXPECT_EQ(j.at("expert_load_blocks"), json({0, 1}));
      summed += j.at("expert_load_steps").get<int64_t>();
      const auto load = j.at("expert_load").get<std::vector<std::vector<int64_t>>>();
      for (size_t l = 0; l < 2; ++l)
        for (size_t e = 0; e < 4; ++e) sum[l][e] += load[l][e];
    }
  }
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(summed, 12);  // every step is in one line, at checkpoints and at the end
  for (const auto& row : sum) EXPECT_EQ(row[0] + row[1] + row[2] + row[3], 12 * 4 * 24 * 2);
}

TEST(MixtureTraining, DenseRunsSayNothingOfRouters) {
  const TempFolder run;
  quiet_train(request(pico_recipe(), run.path()));
  EXPECT_EQ(slurp(run.path() + "/metrics.jsonl").find("expert"), std::string::npos);
}

// A bias alone has to undo a router that sends everything to the same experts.
TEST(MixtureTraining, BiasBalancesAStubbornRouter) {
  ModelConfig c = moe_recipe(kBias).model;
  c.vocab_size = 11;
  LanguageModel model(c, ModelOptions{});
  model.params().initialise(1);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(8, 33, 11);
  const auto least = [&](const at::Tensor& loads) {
    return loads.slice(1, 0, 4).min().item<double>() / loads.slice(1, 0, 4).mean().item<double>();
  };
  // The router prefers expert 0 by a direction all tokens share: the mean of what it reads is not 0.
  for (const char* block : {"0", "1"})
    at::Tensor(model.params().at(fmt::format("transformer.blocks.{}.moe.router.weight", block)).value).mul_(8);
  const double before = least(model.loss(ids, {}).loads);
  at::Tensor sum;
  for (int i = 0; i < 200; ++i) {
    const at::Tensor loads = model.loss(ids, {}).loads;
    model.balance_experts(loads);
    if (i >= 180) sum = sum.defined() ? sum + loads : loads;
  }
  EXPECT_LT(before, 0.8);
  EXPECT_GT(least(sum), 0.9);
}

TEST(RouterLog, ValuesOfAStep) {
  ModelConfig c;
  c.moe.experts = 2, c.moe.dense_blocks = 3;
  RouterLog log(c, 2);
  const double half = 0.5 * std::log(2.0);
  const EvalMetrics m = log.add({1.5, 0.25, /*block 3*/ 6, 2, 1, half, /*block 4*/ 0, 8, 3, 2 * half});
  const EvalMetrics want = {{"balance_loss", 1.5}, {"router_z", 0.25}, {"router_entropy", 0.75}, {"dropped", 0.25},
                            {"load_min", 0},       {"load_max", 2},    {"dead_experts", 1}};
  ASSERT_EQ(m.size(), want.size());
  for (size_t i = 0; i < m.size(); ++i) {
    EXPECT_EQ(m[i].first, want[i].first);
    EXPECT_NEAR(m[i].second, want[i].second, 1e-15) << m[i].first;
  }
  log.add({1, 1, 1, 1, 0, 0, 1, 1, 0, 0});
  const ExpertLoad load = log.take();
  EXPECT_EQ(load.steps, 2);
  EXPECT_EQ(load.blocks, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(load.loads, (std::vector<std::vector<int64_t>>{{7, 3}, {1, 9}}));
  EXPECT_EQ(log.take().steps, 0);
  EXPECT_NE(error_of([&] { log.add({1, 2, 3}); }), "");
}

}  // namespace
}  // namespace siamese
