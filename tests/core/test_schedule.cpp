// The learning rate at the borders of every schedule.
#include <cmath>
#include <numbers>

#include "tiny.h"
#include "train/schedule.h"

namespace siamese {
namespace {

TrainConfig config(const std::string& schedule) {
  TrainConfig t;
  t.schedule = schedule;
  t.steps = 110;
  t.warmup_steps = 10;
  t.lr = 2e-3;
  return t;
}

TEST(Schedule, WarmUpIsLinearInAll) {
  for (const char* schedule : {"cosine", "linear", "constant", "wsd"}) {
    const TrainConfig t = config(schedule);
    EXPECT_DOUBLE_EQ(learning_rate(t, 0), 2e-4) << schedule;
    EXPECT_DOUBLE_EQ(learning_rate(t, 5), 2e-3 * (0.1 + 0.9 * 0.5)) << schedule;
    EXPECT_DOUBLE_EQ(learning_rate(t, 9), 2e-3 * (0.1 + 0.9 * 0.9)) << schedule;
    EXPECT_DOUBLE_EQ(learning_rate(t, 10), 2e-3) << schedule;
  }
}

TEST(Schedule, WarmUpMayStartAnywhereOrBeAbsent) {
  for (const char* schedule : {"cosine", "linear", "constant", "wsd"}) {
    TrainConfig t = config(schedule);
    t.warmup_from = 0;
    EXPECT_DOUBLE_EQ(learning_rate(t, 0), 0) << schedule;
    EXPECT_DOUBLE_EQ(learning_rate(t, 1), 2e-4) << schedule;
    t.warmup_steps = 0;
    EXPECT_DOUBLE_EQ(learning_rate(t, 0), 2e-3) << schedule;
  }
}

TEST(Schedule, Cosine) {
  const TrainConfig t = config("cosine");
  EXPECT_DOUBLE_EQ(learning_rate(t, 60), 2e-3 * (0.1 + 0.9 * 0.5));
  EXPECT_DOUBLE_EQ(learning_rate(t, 35), 2e-3 * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi / 4))));
  EXPECT_DOUBLE_EQ(learning_rate(t, 110), 2e-4);
  EXPECT_NEAR(learning_rate(t, 109), 2e-4, 1e-6);
}

TEST(Schedule, Linear) {
  const TrainConfig t = config("linear");
  EXPECT_DOUBLE_EQ(learning_rate(t, 60), 2e-3 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(t, 110), 2e-4);
}

TEST(Schedule, Constant) {
  const TrainConfig t = config("constant");
  for (const int64_t step : {10, 60, 109, 110, 5000}) EXPECT_DOUBLE_EQ(learning_rate(t, step), 2e-3);
}

TEST(Schedule, Wsd) {
  TrainConfig t = config("wsd");  // the last 22 of 110 steps
  for (const int64_t step : {10, 50, 88}) EXPECT_DOUBLE_EQ(learning_rate(t, step), 2e-3);
  EXPECT_LT(learning_rate(t, 89), 2e-3);
  EXPECT_DOUBLE_EQ(learning_rate(t, 99), 2e-3 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(t, 110), 2e-4);
  t.decay_fraction = 0;
  EXPECT_DOUBLE_EQ(learning_rate(t, 109), 2e-3);
}

TEST(Schedule, BeyondTheEndItStays) {
  for (const char* schedule : {"cosine", "linear", "wsd"}) {
    TrainConfig t = config(schedule);
    EXPECT_DOUBLE_EQ(learning_rate(t, 111), 2e-4) << schedule;
    EXPECT_DOUBLE_EQ(learning_rate(t, 1000000), 2e-4) << schedule;
    t.final_lr = 0;
    EXPECT_DOUBLE_EQ(learning_rate(t, 110), 0) << schedule;
  }
}

// Falls, never jumps: a mistake at a border shows as a step far larger than its neighbours'.
TEST(Schedule, FallsSmoothly) {
  for (const char* schedule : {"cosine", "linear", "wsd"}) {
    const TrainConfig t = config(schedule);
    for (int64_t s = t.warmup_steps; s < t.steps; ++s) {
      const double drop = learning_rate(t, s) - learning_rate(t, s + 1);
      EXPECT_GE(drop, 0) << schedule << " " << s;
      EXPECT_LE(drop, 0.05 * t.lr) << schedule << " " << s;
    }
  }
}

TEST(Schedule, AllWarmUp) {
  TrainConfig t = config("cosine");
  t.steps = t.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(t, 9), 2e-3 * 0.91);
  EXPECT_TRUE(std::isfinite(learning_rate(t, 10)));
  t.steps = t.warmup_steps = 1;
  EXPECT_DOUBLE_EQ(learning_rate(t, 0), 2e-4);
}

}  // namespace
}  // namespace siamese
