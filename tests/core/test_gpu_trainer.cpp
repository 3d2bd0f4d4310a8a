// The training loop on a GPU: results arrive late, but all of them, in order, and before anything is saved.
#include <nlohmann/json.hpp>

#include "gpu.h"
#include "tiny.h"
#include "train/checkpoint.h"

namespace siamese {
namespace {

using nlohmann::json;

TrainRequest request_on(at::Device device, const Recipe& recipe, const std::string& out) {
  TrainRequest r;
  r.recipe = recipe;
  r.out = out;
  r.device = device;
  return r;
}

std::vector<json> metrics(const TempFolder& run) {
  std::istringstream in(slurp(run.file("metrics.jsonl")));
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_F(Gpu, TrainerWritesEveryStepInItsPlace) {
  for (const char* parts : {"train.micro_batch_size=4", "train.micro_batch_size=1"}) {
    const TempFolder cpu, gpu;
    const Recipe recipe = pico_recipe({parts, "train.ema=0.9", "train.steps=23"});
    const TrainResult want = quiet_train(request_on(at::kCPU, recipe, cpu.path())),
                      got = quiet_train(request_on(gpu_, recipe, gpu.path()));
    const std::vector<json> a = metrics(cpu), b = metrics(gpu);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i]["step"], b[i]["step"]) << "line " << i;
      ASSERT_EQ(a[i].contains("loss"), b[i].contains("loss")) << "line " << i;
      const char* value = a[i].contains("loss") ? "loss" : "validation_loss";
      EXPECT_NEAR(a[i][value].get<double>(), b[i][value].get<double>(), 2e-3) << "line " << i;
      if (b[i].contains("loss")) {
        EXPECT_NEAR(a[i]["grad_norm"].get<double>(), b[i]["grad_norm"].get<double>(), 1e-2) << "line " << i;
        EXPECT_GT(b[i]["tokens_per_s"].get<double>(), 0) << "line " << i;
      }
    }
    EXPECT_EQ(got.step, 23);
    EXPECT_NEAR(got.loss, want.loss, 2e-3);
    EXPECT_EQ(list_checkpoints(gpu.path()).size(), list_checkpoints(cpu.path()).size());
  }
}

TEST_F(Gpu, TrainerNamesTheStepThatWentBad) {
  const TempFolder run;
  Recipe recipe = pico_recipe({"checkpoint.every=0", "eval.every=0", "train.clip=0", "train.warmup_steps=0"});
  recipe.train.lr = 1e30;
  const std::string error = error_of([&] { quiet_train(request_on(gpu_, recipe, run.path())); });
  int64_t good = 0;
  for (const json& line : metrics(run)) good += line.contains("loss");
  EXPECT_TRUE(error.starts_with(fmt::format("step {}:", good + 1))) << error;
  EXPECT_NE(error.find("first bad tensor: "), std::string::npos) << error;
  EXPECT_EQ(error.find("not found"), std::string::npos) << error;
  EXPECT_TRUE(list_checkpoints(run.path()).empty());
}

// Steps are issued ahead; none of what they leave is saved.
TEST_F(Gpu, TrainerStopsBeforeItSavesWhatIsNotFinite) {
  for (const auto& [lr, culprit] : {std::pair{1e30, "the validation loss"}, {3e38, "parameter transformer."}}) {
    const TempFolder run;
    Recipe recipe = pico_recipe({"checkpoint.every=1", "eval.every=0", "train.clip=0", "train.warmup_steps=0"});
    recipe.train.steps = 2;
    quiet_train(request_on(gpu_, recipe, run.path()));
    recipe.train.lr = lr;
    recipe.train.steps = 10;
    TrainRequest again = request_on(gpu_, recipe, run.path());
    again.mode = OpenMode::resume;
    const std::string error = error_of([&] { quiet_train(again); });
    EXPECT_NE(error.find(culprit), std::string::npos) << error;
    EXPECT_NE(error.find("step-00000002"), std::string::npos) << error;
    EXPECT_EQ(find_checkpoint(run.path()).state().step, 2);
  }
}

}  // namespace
}  // namespace siamese
