// Ctrl-C and `kill`: the step is finished, the run is saved, and the printed command continues it.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "process.h"

namespace siamese::test {
namespace {

/// Folders and files with all that a shell would trip over, in the recipe, the data and the run.
class Signals : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / kOdd);
    write(recipe_, "extends: lm-pico\nmodel: {residual_dropout: 0.1}\ncheckpoint: {every: 25}\n");
    std::string text;
    for (int i = 0; i < 200; ++i) text += "Line " + std::to_string(i * i) + " of a book nobody has written.\n";
    write(text_, text);
  }

  Args command(const std::string& out) const {
    return {"train", recipe_, "--threads", "1", "--set", "data.text=" + text_, "--set", "train.z_loss=1e-4",
            "--out", out};
  }

  static int64_t last_step(const std::string& run) {
    return nlohmann::json::parse(lines(read(run + "/metrics.jsonl")).back()).at("step").get<int64_t>();
  }

  /// What stands after "Continue with:".
  static std::string printed_command(const std::string& out) {
    const std::string mark = "Continue with:\n  ";
    const size_t at = out.find(mark);
    return at == std::string::npos ? "" : lines(out.substr(at + mark.size())).front();
  }

  void stop_and_continue(int signal) {
    const std::string whole = folder_ / "whole", stopped = folder_ / kOdd + "/run $HOME `x`";
    ASSERT_EQ(run_siamese(command(whole)).status, 0);

    Process process(siamese_command(command(stopped)));
    ASSERT_TRUE(process.wait_until([&] { return lines(read(stopped + "/metrics.jsonl")).size() >= 4; }))
        << process.err();
    process.send(signal);
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.signal, 0);
    EXPECT_EQ(outcome.status, 128 + signal);
    EXPECT_NE(outcome.out.find("stopped by signal " + std::to_string(signal)), std::string::npos) << outcome.out;

    // Saved at the very step it stopped at, not at the last multiple of checkpoint.every.
    const int64_t step = last_step(stopped);
    ASSERT_LT(step, 60) << "the signal came too late";
    char name[32];
    std::snprintf(name, sizeof name, "/step-%08d", static_cast<int>(step));
    EXPECT_TRUE(fs::exists(stopped + "/checkpoints" + name));

    const std::string again = printed_command(outcome.out);
    ASSERT_FALSE(again.empty()) << outcome.out;
    const std::string path = fs::path(SIAMESE_BINARY).parent_path().string() + ":" + std::getenv("PATH");
    const Outcome resumed = run({"bash", "-c", again}, {.folder = "/", .environment = {{"PATH", path}}});
    ASSERT_EQ(resumed.status, 0) << again << "\n" << resumed.err;
    EXPECT_NE(resumed.out.find("at step " + std::to_string(step)), std::string::npos) << resumed.out;
    EXPECT_EQ(timeless_metrics(stopped), timeless_metrics(whole));
  }

  static constexpr const char* kOdd = "it's a \"test\" & more";
  TempFolder folder_;
  const std::string recipe_ = folder_ / kOdd + "/my recipe.yaml";
  const std::string text_ = folder_ / kOdd + "/my book.txt";
};

TEST_F(Signals, InterruptSavesAndThePrintedCommandContinues) { stop_and_continue(SIGINT); }

TEST_F(Signals, TerminateSavesAndThePrintedCommandContinues) { stop_and_continue(SIGTERM); }

TEST_F(Signals, CompareStopsToo) {
  const std::string out = folder_ / "compare";
  Process process(siamese_command({"compare", "lm-pico", "--schemes", "pre,post", "--threads", "1", "--out", out}));
  ASSERT_TRUE(process.wait_until([&] { return lines(read(out + "/pre/metrics.jsonl")).size() >= 3; })) << process.err();
  process.send(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + SIGINT) << outcome.err;
  EXPECT_EQ(outcome.out.find("Continue with"), std::string::npos) << "there is no command to continue with";
  EXPECT_FALSE(fs::exists(out + "/post"));
  EXPECT_FALSE(fs::exists(out + "/report.html"));
}

}  // namespace
}  // namespace siamese::test
