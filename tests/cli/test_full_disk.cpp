// A disk that is full, or a quota that is used up: a clear message, and the run goes on once there is room again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "process.h"

namespace siamese::test {
namespace {

/// lm-pico as it is: its checkpoints have 1.8 MB (weights 0.6 MB, optimizer 1.2 MB).
Args pico(const std::string& out, int steps) {
  return {"train",     "lm-pico",
          "--threads", "1",
          "--out",     out,
          "--set",     "checkpoint.every=5",
          "--set",     "train.schedule=constant",
          "--set",     "eval.batches=1",
          "--set",     "train.steps=" + std::to_string(steps)};
}

void expect_clear(const Outcome& outcome, const std::string& path) {
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.status, 1);
  const std::string last = outcome.err.empty() ? "" : lines(outcome.err).back();
  EXPECT_TRUE(last.starts_with("siamese: ")) << outcome.err;
  EXPECT_NE(last.find(path), std::string::npos) << last;
}

std::vector<std::string> checkpoints(const std::string& run) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints"))
    if (entry.path().extension().empty()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(FullDisk, QuotaInTheMiddleOfACheckpoint) {
  const TempFolder folder;
  const std::string whole = folder / "whole", out = folder / "run";
  ASSERT_EQ(run_siamese(pico(whole, 20)).status, 0);
  ASSERT_EQ(run_siamese(pico(out, 10)).status, 0);
  const auto before = fingerprint(out + "/checkpoints");

  // Weights fit, the optimizer does not.
  expect_clear(run_siamese(pico(out, 20) + Args{"--resume"}, {.largest_file = 1 << 20}), "optimizer.safetensors");
  EXPECT_EQ(checkpoints(out), (Args{"step-00000005", "step-00000010"}));
  for (const auto& [name, hash] : before) EXPECT_EQ(fingerprint(out + "/checkpoints")[name], hash) << name;
  EXPECT_EQ(run_siamese({"info", out}).status, 0);

  ASSERT_EQ(run_siamese(pico(out, 20) + Args{"--resume"}).status, 0);
  // The evaluation at the end of the first 10 steps happens in a run of 20 as well: a checkpoint is due.
  EXPECT_EQ(timeless_metrics(out), timeless_metrics(whole));
}

/// Runs a script in a mount namespace of its own, where $DISK is a small file system.
class SmallDisk : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome possible = script("true");
    if (possible.status != 0) GTEST_SKIP() << "no small file system can be mounted here: " << possible.err;
  }

  Outcome script(const std::string& body, const std::string& options = "size=4600k") {
    const std::string disk = folder_ / "disk", binary = fs::path(SIAMESE_BINARY).parent_path().string();
    fs::create_directories(disk);
    const std::string mount =
        "mount -t tmpfs -o " + options + " tmpfs '" + disk + "' && export DISK='" + disk + "' && ";
    return run({"unshare", "--mount", "bash", "-c", mount + body},
               {.environment = {{"PATH", binary + ":" + std::getenv("PATH")}}});
  }

  TempFolder folder_;
  const std::string train_ =
      "siamese train lm-pico --threads 1 --out $DISK/run --set checkpoint.every=5 --set eval.batches=1 "
      "--set train.steps=20 --set train.warmup_steps=2 ";
};

/// Two checkpoints of 1.8 MB fit on 4.6 MB; there is no third until the disk has grown.
TEST_F(SmallDisk, FillsUp) {
  const Outcome outcome = script(train_ +
                                 "; echo \"status $?\" >&2; ls $DISK/run/checkpoints; siamese info $DISK/run | head -2;"
                                 "mount -o remount,size=64m $DISK && " +
                                 train_ + "--resume > /dev/null && echo done");
  const std::string& err = outcome.err;
  EXPECT_NE(err.find("status 1"), std::string::npos) << err;
  EXPECT_NE(err.find("/disk/run/checkpoints: writing here needs"), std::string::npos) << err;
  EXPECT_NE(outcome.out.find("step-00000005\nstep-00000010\ncheckpoint"), std::string::npos) << outcome.out << err;
  EXPECT_NE(outcome.out.find("run/checkpoints/step-00000010\nstep    10"), std::string::npos) << outcome.out << err;
  EXPECT_TRUE(outcome.out.ends_with("done\n")) << outcome.out << err;
}

/// With no file left to create, ENOSPC comes in the middle of the checkpoint, which the check for room cannot foresee.
TEST_F(SmallDisk, RunsOutOfFiles) {
  const Outcome outcome =
      script(train_ +
                 "; echo \"status $?\" >&2; ls $DISK/run/checkpoints; siamese info $DISK/run | head -2;"
                 "mount -o remount,nr_inodes=100 $DISK && " +
                 train_ + "--resume > /dev/null && echo done",
             "size=64m,nr_inodes=13");
  const std::string& err = outcome.err;
  EXPECT_NE(err.find("status 1"), std::string::npos) << err;
  EXPECT_NE(err.find("the disk is full"), std::string::npos) << err;
  EXPECT_NE(outcome.out.find("run/checkpoints/step-00000005\nstep    5"), std::string::npos) << outcome.out << err;
  EXPECT_TRUE(outcome.out.ends_with("done\n")) << outcome.out << err;
}

}  // namespace
}  // namespace siamese::test
