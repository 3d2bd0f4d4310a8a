// The training step of a mixture on a GPU: as a CUDA graph and operation by operation, whole and resumed.
#include "gpu_train_step.h"

namespace siamese {
namespace {

class GpuMixtureStep : public GpuTrainStep {
 protected:
  static std::vector<std::string> mixture(std::vector<std::string> set) {
    set.insert(set.end(), {"model.moe.experts=8", "model.moe.expert_hidden_size=64"});
    return set;
  }
};

// Replays send other numbers of tokens to each expert than the step that was captured.
TEST_F(GpuMixtureStep, GraphOfAMixtureGivesThePlainStepsLosses) {
  if (const std::string why = without_expert_kernels(); !why.empty()) GTEST_SKIP() << why;
  for (const char* balance : {"model.moe.balance=bias", "model.moe.capacity_factor=1.1"}) {
    std::vector<json> found[2];
    for (const bool graph : {false, true}) {
      const TempFolder run;
      quiet_train(request(small_recipe(mixture({balance, "train.steps=6", "train.lr=0.01", "train.deterministic=true",
                                                fmt::format("train.graph={}", graph ? "on" : "off")})),
                          run, gpu_));
      found[graph] = lines_in(run);
    }
    EXPECT_EQ(found[0], found[1]) << balance;
  }
}

// The biases that balance experts go on as well: they are in the weights' file.
TEST_F(GpuMixtureStep, MixturesResumeDigitForDigitWhenDeterministic) {
  for (const char* graph : {"on", "off"}) {
    if (graph == std::string("on") && !without_expert_kernels().empty()) continue;
    for (const char* rows : {"train.micro_batch_size=8", "train.micro_batch_size=2"})
      expect_resumes(mixture({rows, fmt::format("train.graph={}", graph), "model.moe.balance=bias",
                              "model.moe.score=sigmoid", "model.moe.bias_rate=0.01"}));
  }
}

}  // namespace
}  // namespace siamese
