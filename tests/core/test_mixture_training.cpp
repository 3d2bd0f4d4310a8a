// Training with mixtures: runs repeat and resume digit for digit, biases included; what metrics.jsonl says of routers.
#include <algorithm>
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

/// Balancing by biases may begin from a mixture that had none, and end. No step is large enough to move a weight.
TEST(MixtureTraining, WeightsGoFromOneKindOfBalancingToTheOther) {
  const TempFolder by_loss, by_bias, back;
  const std::vector<std::string> still = {"train.steps=2", "train.lr=1e-30"};
  quiet_train(request(moe_recipe(still), by_loss.path()));
  std::vector<std::string> how = kBias;
  how.insert(how.end(), still.begin(), still.end());
  TrainRequest there = request(moe_recipe(how), by_bias.path()), again = request(moe_recipe(still), back.path());
  there.init_from = by_loss.path(), again.init_from = by_bias.path();
  quiet_train(there);
  quiet_train(again);
  const SafetensorsFile first = find_checkpoint(by_loss.path()).open("model.safetensors"),
                        second = find_checkpoint(by_bias.path()).open("model.safetensors");
  EXPECT_EQ(second.tensors().size(), first.tensors().size() + 2);
  for (const auto& [name, stored] : first.tensors())
    EXPECT_LE(relative_error(to_tensor(second.at(name)), to_tensor(stored)), 1e-20) << name;
  for (const char* name : {"transformer.blocks.0.moe.balance_bias", "transformer.blocks.1.moe.balance_bias"})
    EXPECT_NEAR(to_tensor(second.at(name)).abs().max().item<double>(), 0.015, 0.006) << name;  // one step's, or two's
  EXPECT_EQ(metrics(back.path()), metrics(by_loss.path()));
}

/// Parts of a batch: losses and entropy of the whole are their means, loads their sums.
TEST(MixtureTraining, PartsOfABatchMakeTheWhole) {
  for (std::vector<std::string> how : {kBias, std::vector<std::string>{"model.moe.balance=none"}}) {
    how.insert(how.end(), {"train.batch_size=8", "train.steps=1"});
    std::vector<json> steps, loads;
    for (const char* rows : {"train.micro_batch_size=8", "train.micro_batch_size=2"}) {
      std::vector<std::string> set = how;
      set.push_back(rows);
      const TempFolder run;
      quiet_train(request(moe_recipe(set), run.path()));
      for (const json& j : metrics(run.path())) {
        if (j.contains("loss")) steps.push_back(j);
        if (j.contains("expert_load")) loads.push_back(j);
      }
    }
    ASSERT_EQ(steps.size(), 2U);
    ASSERT_EQ(loads.size(), 2U);
    EXPECT_EQ(loads[1], loads[0]);
    for (const char* name : {"loss", "grad_norm", "router_z", "router_entropy", "load_min", "load_max"}) {
      const double whole = steps[0].at(name).get<double>();
      EXPECT_GT(whole, 0) << name;
      EXPECT_NEAR(steps[1].at(name).get<double>(), whole, 2e-5 * whole) << name;
    }
    // Each part has a balance of its own; their mean is near that of the whole.
    EXPECT_NEAR(steps[1].at("balance_loss").get<double>(), steps[0].at("balance_loss").get<double>(), 0.1);
  }
}

/// Two deterministic runs on a GPU, also under recomputation.
TEST_F(Gpu, MixtureRunsRepeatInBf16) {
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
    EXPECT_EQ(std::count_if(runs[0].begin(), runs[0].end(), [](const json& j) { return j.contains("loss"); }), 4);
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

/// What a step's line says of loads is what the loads themselves say: a checkpoint after every step ends their line.
TEST(MixtureTraining, MetricsTellOfRouters) {
  for (const int64_t experts : {4, 32}) {  // of 32 some get nothing
    const TempFolder run;
    quiet_train(request(pico_recipe({fmt::format("model.moe.experts={}", experts), "model.moe.expert_hidden_size=16",
                                     "model.moe.capacity_factor=0.5", "train.steps=4", "checkpoint.every=1"}),
                        run.path()));
    const double sent = 4 * 24 * 2, mean = sent / static_cast<double>(experts), capacity = std::ceil(0.5 * mean);
    json step;
    int64_t lines = 0;
    for (const json& j : metrics(run.path())) {
      if (j.contains("loss")) step = j;
      if (!j.contains("expert_load")) continue;
      ++lines;
      EXPECT_EQ(j.at("step"), step.at("step"));
      EXPECT_EQ(j.at("expert_load_steps"), 1);
      EXPECT_EQ(j.at("expert_load_blocks"), json({0, 1}));
      double least = sent, most = 0, dropped = 0, dead = 0;
      for (const auto& block : j.at("expert_load").get<std::vector<std::vector<double>>>()) {
        EXPECT_EQ(static_cast<int64_t>(block.size()), experts);
        double sum = 0;
        for (const double load : block) {
          sum += load, dead += load == 0, dropped += std::max(0.0, load - capacity);
          least = std::min(least, load), most = std::max(most, load);
        }
        EXPECT_EQ(sum, sent);
      }
      const auto value = [&](const char* name) { return step.at(name).get<double>(); };
      EXPECT_NEAR(value("load_min"), least / mean, 1e-5);
      EXPECT_NEAR(value("load_max"), most / mean, 1e-5 * most);
      EXPECT_EQ(value("dead_experts"), dead);
      EXPECT_NEAR(value("dropped"), dropped / (2 * sent), 1e-6);
      EXPECT_EQ(dead > 0, experts == 32);
      // Of logits about as wide as 1: uneven, not decided, their logsumexp about ln E + 0.5.
      const double undecided = std::log(static_cast<double>(experts));
      EXPECT_NEAR(value("balance_loss"), 1.4, 0.4);
      EXPECT_NEAR(value("router_z"), std::pow(undecided + 0.5, 2), 0.3 * std::pow(undecided + 0.5, 2));
      EXPECT_NEAR(value("router_entropy"), 1 - 0.3 / undecided, 0.08);
    }
    EXPECT_EQ(lines, 4);
  }
}

/// Every step is in one line of loads: they end at checkpoints and with the run.
TEST(MixtureTraining, LinesOfLoadsLeaveOutNoStep) {
  const TempFolder run;
  quiet_train(request(moe_recipe({"train.micro_batch_size=2"}), run.path()));
  std::vector<int64_t> ends, steps;
  for (const json& j : metrics(run.path())) {
    if (!j.contains("expert_load")) continue;
    ends.push_back(j.at("step").get<int64_t>());
    steps.push_back(j.at("expert_load_steps").get<int64_t>());
    for (const auto& block : j.at("expert_load").get<std::vector<std::vector<int64_t>>>())
      EXPECT_EQ(block[0] + block[1] + block[2] + block[3], steps.back() * 4 * 24 * 2);
  }
  EXPECT_EQ(ends, (std::vector<int64_t>{5, 10, 12}));
  EXPECT_EQ(steps, (std::vector<int64_t>{5, 5, 2}));
}

TEST(MixtureTraining, DenseRunsSayNothingOfRouters) {
  const TempFolder run;
  quiet_train(request(pico_recipe(), run.path()));
  int64_t steps = 0;
  for (const json& j : metrics(run.path())) {
    steps += j.contains("loss");
    for (const char* name : {"expert_load", "balance_loss", "router_z", "router_entropy", "load_min", "dropped"})
      EXPECT_FALSE(j.contains(name)) << name;
  }
  EXPECT_EQ(steps, 12);
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
