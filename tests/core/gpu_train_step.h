// A training run on a GPU in a size that takes a moment, and what its metrics say.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gpu.h"
#include "ops/gpu_tools.h"
#include "tiny.h"
#include "train/checkpoint.h"

namespace siamese {

namespace fs = std::filesystem;
using nlohmann::json;

/// Attention of heads of 32, which the kernels take.
inline Recipe small_recipe(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> set = {"model.d_model=64",   "model.mlp_hidden_size=256", "train.sequence_length=96",
                                  "train.batch_size=8", "train.precision=bfloat16",  "train.lr=3e-3",
                                  "eval.every=0",       "checkpoint.every=0"};
  set.insert(set.end(), overrides.begin(), overrides.end());
  return pico_recipe(set);
}

class GpuTrainStep : public Gpu {
 protected:
  void TearDown() override { set_deterministic(false); }

  TrainRequest request(const Recipe& recipe, const TempFolder& out, at::Device device) const {
    TrainRequest r;
    r.recipe = recipe;
    r.out = out.path();
    r.device = device;
    return r;
  }

  ModelOptions narrow_options(Recompute policy) const {
    ModelOptions options;
    options.device = gpu_;
    options.dtype = options.stream_dtype = at::kBFloat16;
    options.recompute = policy;
    return options;
  }

  /// Loss and gradient norm of every step.
  static std::vector<std::pair<double, double>> steps_in(const TempFolder& run) {
    std::istringstream in(slurp(run.file("metrics.jsonl")));
    std::vector<std::pair<double, double>> all;
    for (std::string line; std::getline(in, line);) {
      const json j = json::parse(line);
      if (j.contains("loss")) all.emplace_back(j["loss"].get<double>(), j["grad_norm"].get<double>());
    }
    return all;
  }
  std::vector<std::pair<double, double>> trained(const Recipe& recipe) const { return trained(recipe, gpu_); }
  std::vector<std::pair<double, double>> trained(const Recipe& recipe, at::Device device) const {
    const TempFolder run;
    quiet_train(request(recipe, run, device));
    const json info = json::parse(slurp(run.file("run.json")));
    EXPECT_EQ(info.at("graph"), device.is_cuda() && recipe.train.graph == "on");
    EXPECT_EQ(info.at("deterministic"), device.is_cpu() || recipe.train.deterministic);
    return steps_in(run);
  }

  /// Lines of steps and of experts' loads, without the speed.
  static std::vector<json> lines_in(const TempFolder& run) {
    std::istringstream in(slurp(run.file("metrics.jsonl")));
    std::vector<json> all;
    for (std::string line; std::getline(in, line);) {
      json j = json::parse(line);
      j.erase("tokens_per_s");
      if (j.contains("loss") || j.contains("expert_load")) all.push_back(std::move(j));
    }
    return all;
  }

  /// A deterministic run goes on from its fifth step as it did without a break.
  void expect_resumes(const std::vector<std::string>& how) const {
    std::vector<std::string> set = {"train.deterministic=true", "train.steps=14", "checkpoint.every=5", "eval.every=4",
                                    "train.ema=0.9"};
    set.insert(set.end(), how.begin(), how.end());
    const Recipe recipe = small_recipe(set);
    const TempFolder whole, cut;
    quiet_train(request(recipe, whole, gpu_));
    fs::copy(whole.path(), cut.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    TrainRequest resume = request(recipe, cut, gpu_);
    resume.mode = OpenMode::resume;
    resume.from = cut.file("checkpoints/step-00000005");
    quiet_train(resume);
    EXPECT_EQ(steps_in(whole).size(), 14U) << how.front();
    EXPECT_EQ(lines_in(cut), lines_in(whole)) << how.front();
    for (const char* name : {"model", "optimizer", "ema"}) {
      const std::string file = fmt::format("checkpoints/step-00000014/{}.safetensors", name);
      EXPECT_TRUE(slurp(whole.file(file)) == slurp(cut.file(file))) << name << " " << how.front();
    }
    if (recipe.model.moe.balance != "bias") return;
    const at::Tensor bias =
        to_tensor(find_checkpoint(whole.path()).open("model.safetensors").at("transformer.blocks.1.moe.balance_bias"));
    EXPECT_GT(bias.abs().max().item<double>(), 0.015) << "after 14 steps of 0.01";
  }
};

}  // namespace siamese
