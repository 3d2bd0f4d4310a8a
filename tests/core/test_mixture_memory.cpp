// The memory estimate of mixtures: linear in the tokens, blocks counted by what they are, the recipes' promises.
#include "tiny.h"
#include "train/memory.h"
#include "train/models.h"

namespace siamese {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
const at::Device kGpu(at::kCUDA);  // only its name: nothing is allocated

Recipe moe(const std::string& name, const std::vector<std::string>& set = {}) {
  return without_data(load_recipe(SIAMESE_SOURCE_DIR "/recipes/" + name + ".yaml", set));
}

MemoryPlan plan(const Recipe& r, Recompute policy, at::Device device = at::kCPU) {
  return plan_memory(r, count_parameters(r), policy, device);
}

TEST(MixtureMemory, ExpertsKeepTheirInputsAndScores) {
  const MemoryPlan p = plan(moe("moe-tiny"), Recompute::none);
  const double tokens = 8 * 256, rows = 2 * 512 * 4, router = 2 * 4 * 8 + 2 * (2 * 4 + 3 * 8);
  EXPECT_EQ(p.experts, 4 * tokens * (rows + router));
  EXPECT_EQ(p.feed_forward, 0);
  EXPECT_EQ(p.activated, 0);
  EXPECT_EQ(p.work, tokens * 2 * 4 * (3 * 256 + 2 * 512));
}

TEST(MixtureMemory, IsLinearInTheTokensAndNotInTheExperts) {
  const MemoryPlan one = plan(moe("moe-tiny"), Recompute::none),
                   two = plan(moe("moe-tiny", {"train.batch_size=16"}), Recompute::none),
                   many = plan(moe("moe-tiny", {"model.moe.experts=64"}), Recompute::none);
  EXPECT_EQ(two.experts, 2 * one.experts);
  EXPECT_EQ(two.work, 2 * one.work);
  EXPECT_LT(many.experts, 1.2 * one.experts);  // the routers' scores
}

TEST(MixtureMemory, DenseBlocksCountAsSuch) {
  const MemoryPlan p = plan(moe("moe-tiny", {"model.moe.dense_blocks=1"}), Recompute::none),
                   mixed = plan(moe("moe-tiny"), Recompute::none),
                   dense = plan(moe("moe-tiny", {"model.moe.experts=0"}), Recompute::none);
  EXPECT_EQ(4 * p.experts, 3 * mixed.experts);
  EXPECT_EQ(4 * p.feed_forward, dense.feed_forward);
  EXPECT_EQ(dense.experts + dense.work, 0);
  const MemoryPlan again = plan(moe("moe-tiny"), Recompute::block);
  EXPECT_EQ(4 * again.experts, mixed.experts);  // one block at a time
}

TEST(MixtureMemory, RecipesKeepTheirPromises) {
  EXPECT_LT(plan(moe("moe-h200"), Recompute::block, kGpu).total(), 138 * kGiB);
  EXPECT_GT(plan(moe("moe-h200"), Recompute::none, kGpu).total(), 139 * kGiB);
  EXPECT_GT(plan(moe("moe-15a2b"), Recompute::block, kGpu).total(), 139 * kGiB);
  const Recipe big = moe("moe-15a2b");
  EXPECT_NEAR(static_cast<double>(count_parameters(big)), 15.0e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(active_parameters(make_lm(big, at::kMeta)->params(), big.model)), 2.0e9, 0.2e9);
}

TEST(MixtureMemory, AdviceNamesExperts) {
  const Recipe r = moe("moe-h200", {"train.recompute=none"});
  const std::string text = memory_advice(r, count_parameters(r), kGpu);
  for (const char* part : {"  experts ", "  one block at work ", "train.recompute (now none): block saves "})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace siamese
