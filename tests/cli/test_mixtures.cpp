// Mixtures of experts in a user's hands: what info says of the big recipes, and a small one through every command.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "process.h"

namespace siamese::test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string recipe(const std::string& name) { return SIAMESE_SOURCE_DIR "/recipes/" + name + ".yaml"; }

Outcome must(const Args& args) {
  Outcome outcome = run_siamese(args);
  EXPECT_EQ(outcome.status, 0) << shown(args) << "\n" << outcome.err;
  return outcome;
}

/// Billions of parameters, all and active, as `info` prints them, in too little address space to hold them.
std::pair<double, double> sizes(const std::string& name) {
#ifdef __SANITIZE_ADDRESS__
  constexpr long kMemory = -1;  // its shadow memory alone is larger than any limit
#else
  constexpr long kMemory = 12L << 30;
#endif
  const Outcome outcome = run_siamese({"info", recipe(name)}, {.memory = kMemory});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::smatch found;
  if (!std::regex_search(outcome.out, found, std::regex(R"(([0-9.]+)B parameters, ([0-9.]+)B active)"))) {
    ADD_FAILURE() << outcome.out;
    return {};
  }
  return {std::stod(found[1]), std::stod(found[2])};
}

TEST(Mixtures, InfoOf15A2B) {
  const auto [all, active] = sizes("moe-15a2b");
  EXPECT_NEAR(all, 15.0, 0.5);
  EXPECT_NEAR(active, 2.0, 0.2);
}

TEST(Mixtures, InfoOfOlmoe) {
  const auto [all, active] = sizes("moe-1b-7b");
  EXPECT_NEAR(all, 6.9, 0.05);
  EXPECT_NEAR(active, 1.3, 0.05);
}

// What a step needs on a GPU leaves some of the 139 GiB for the allocator and the context; the estimate is 5 % high.
TEST(Mixtures, InfoOfTheLargestForOneGpu) {
  const Outcome outcome = must({"info", recipe("moe-h200")});
  std::smatch found;
  ASSERT_TRUE(
      std::regex_search(outcome.out, found, std::regex(R"(on a GPU, training\n[^\n]*together about ([0-9.]+) GiB)")))
      << outcome.out;
  EXPECT_LT(std::stod(found[1]), 138);
  EXPECT_GT(std::stod(found[1]), 115);
}

class SmallMixture : public testing::Test {
 protected:
  Args train(const std::string& out, const Args& more = {}) const {
    return tiny_train(out, 6, 3) + Args{"--set", "model.moe.experts=4", "--set", "model.moe.expert_hidden_size=32"} +
           more;
  }
  TempFolder folder_;
};

TEST_F(SmallMixture, TrainsEvaluatesAndWrites) {
  const std::string run = folder_ / "run";
  const Args bias = {"--set", "model.moe.balance=bias", "--set", "model.moe.score=sigmoid", "--set", "train.ema=0.9"};
  const Outcome trained = must(train(run, bias));
  EXPECT_TRUE(contains(trained.out, "4 experts of 32, 2 a token; sigmoid scores, balanced by a bias")) << trained.out;
  EXPECT_TRUE(contains(trained.out, " active: ")) << trained.out;
  const Outcome evaluated = must({"eval", run, "--batches", "1"});
  EXPECT_TRUE(contains(evaluated.out, "validation_loss")) << evaluated.out;
  must({"eval", run, "--batches", "1", "--ema"});
  const Args write = {"generate", run, "--prompt", "Mira", "--tokens", "12", "--temperature", "0"};
  EXPECT_EQ(must(write).out, must(write).out);
  EXPECT_TRUE(contains(must({"info", run}).out, " active: "));
  must({"report", run, "-o", folder_ / "page.html"});
  const std::string page = read(folder_ / "page.html");
  EXPECT_TRUE(contains(page, "Load of the experts"));
  EXPECT_TRUE(contains(page, "Balance loss"));
}

TEST_F(SmallMixture, BenchCountsWhatIsActive) {
  auto parameters = [&](const std::string& experts) {
    const Outcome o = must({"bench",     "lm-pico",
                            "--schemes", "pre",
                            "--set",     "model.moe.experts=" + experts,
                            "--set",     "model.moe.top_k=2",
                            "--set",     "model.d_model=32",
                            "--set",     "model.n_layers=2",
                            "--set",     "model.n_heads=2",
                            "--steps",   "1",
                            "--rounds",  "1",
                            "--threads", "1",
                            "--json"});
    return nlohmann::json::parse(o.out).at("parameters").get<int64_t>();
  };
  // More experts, of which a token meets as many: only the routers grow.
  EXPECT_EQ(parameters("8") - parameters("4"), 2 * 4 * 32);
}

TEST_F(SmallMixture, MistakesAreNamed) {
  const Outcome outcome = run_siamese(train(folder_ / "run", {"--set", "model.moe.top_k=5"}));
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(contains(outcome.err, "model.moe.top_k (5) is more than model.moe.experts (4)")) << outcome.err;
}

}  // namespace
}  // namespace siamese::test
