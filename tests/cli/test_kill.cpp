// A run that is killed again and again ends exactly as one that was left alone.
#include <gtest/gtest.h>

#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "process.h"

namespace siamese::test {
namespace {

/// Everything that carries state from step to step is on: dropout draws, averaged weights, micro-batches, wsd.
constexpr const char* kRecipe = R"(extends: lm-pico
model:
  embedding_dropout: 0.1
  residual_dropout: 0.1
  attention_dropout: 0.1
  drop_path: 0.1
train:
  steps: 100
  schedule: wsd
  micro_batch_size: 4
  ema: 0.95
eval:
  every: 9
  batches: 1
checkpoint:
  every: 6
)";

class Killed : public testing::Test {
 protected:
  void SetUp() override { write(recipe_, kRecipe); }

  Args command(const std::string& out, const Args& more = {}) const {
    return Args{"train", recipe_, "--threads", "1", "--out", out} + more;
  }
  static size_t logged(const std::string& run) { return lines(read(run + "/metrics.jsonl")).size(); }

  /// Names in checkpoints/ that end so; a folder may vanish while it is being looked at.
  static std::set<std::string> named(const std::string& run, const std::string& ending) {
    std::set<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(run + "/checkpoints", error), end; !error && entry != end; entry.increment(error))
      if (const std::string name = entry->path().filename().string(); name.ends_with(ending)) names.insert(name);
    return names;
  }

  void expect_same_end(const std::string& killed, const std::string& whole, const std::string& last) {
    EXPECT_EQ(timeless_metrics(killed), timeless_metrics(whole));
    const auto files = fingerprint(killed + "/checkpoints/" + last);
    EXPECT_EQ(files, fingerprint(whole + "/checkpoints/" + last));
    EXPECT_EQ(files.size(), 4U) << "manifest, weights, average, optimizer";
    for (const char* leftover : {".partial", ".removed", ".tmp"})
      EXPECT_TRUE(named(killed, leftover).empty()) << leftover;
  }

  TempFolder folder_;
  const std::string recipe_ = folder_ / "killed.yaml";
};

TEST_F(Killed, TenTimesAtRandomMoments) {
  const std::string whole = folder_ / "whole", killed = folder_ / "killed";
  ASSERT_EQ(run_siamese(command(whole)).status, 0);
  // Steps 1 … 100, evaluations at multiples of 9 and of 6 and at the end; nothing twice, nothing missing.
  ASSERT_EQ(logged(whole), 100U + 11 + 16 - 5 + 1);

  std::mt19937 random(1906);
  const auto pause = [&](int64_t most) { std::this_thread::sleep_for(std::chrono::microseconds(random() % most)); };
  int in_saving = 0;
  for (int kill = 0; kill < 10; ++kill) {
    const size_t before = logged(killed);
    const auto stale = named(killed, ".partial");
    Process process(siamese_command(command(killed, {"--resume"})));
    switch (kill % 5) {
      case 0:
      case 2:  // while a checkpoint is being written: at once, or some files later
        ASSERT_TRUE(process.wait_until([&] {
          const auto now = named(killed, ".partial");
          return !now.empty() && (now != stale || logged(killed) > before);
        })) << process.err();
        if (kill % 2 == 0) pause(12000);
        break;
      case 1:
      case 3: {  // some steps on
        const size_t steps = 7 + random() % 4;
        ASSERT_TRUE(process.wait_until([&] { return logged(killed) >= before + steps; })) << process.err();
        pause(15000);
        break;
      }
      default:
        pause(400000);  // while it starts, reads the checkpoint, cuts the metrics, or shortly after
    }
    process.send(SIGKILL);
    EXPECT_EQ(process.wait().signal, SIGKILL) << "kill " << kill << " came too late";
    in_saving += named(killed, ".partial").empty() ? 0 : 1;
  }
  EXPECT_GE(in_saving, 2) << "too few kills fell into saving to say something about it";

  const Outcome last = run_siamese(command(killed, {"--resume"}));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_NE(last.out.find("resume  from"), std::string::npos) << last.out;
  expect_same_end(killed, whole, "step-00000100");
}

TEST_F(Killed, BeforeTheFirstCheckpoint) {
  const Args late = {"--set", "checkpoint.every=0", "--set", "train.steps=30"};
  const std::string whole = folder_ / "whole", killed = folder_ / "killed";
  ASSERT_EQ(run_siamese(command(whole, late)).status, 0);
  for (const size_t steps : {size_t{0}, size_t{5}}) {
    Process process(siamese_command(command(killed, late + Args{"--resume"})));
    ASSERT_TRUE(process.wait_until([&] { return fs::exists(killed + "/.lock") && logged(killed) >= steps; }));
    process.send(SIGKILL);
    ASSERT_EQ(process.wait().signal, SIGKILL);
  }
  ASSERT_TRUE(named(killed, "").empty());
  // The recipe is already in the folder, so it need not be named again.
  const Outcome last = run_siamese({"train", "--threads", "1", "--out", killed, "--resume"});
  ASSERT_EQ(last.status, 0) << last.err;
  expect_same_end(killed, whole, "step-00000030");
}

}  // namespace
}  // namespace siamese::test
