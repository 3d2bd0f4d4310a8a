#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "util/progress.h"
#include "util/utf8.h"

namespace siamese {
namespace {

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() : file_(std::tmpfile()) {}
  ~ProgressTest() override { std::fclose(file_); }

  ProgressOptions options(bool terminal) {
    ProgressOptions result;
    result.terminal = terminal;
    result.out = file_;
    result.columns = 60;
    result.clock = [this] { return now_; };
    return result;
  }

  std::string written() {
    std::fflush(file_);
    std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

  std::FILE* file_;
  double now_ = 100;
};

// What a terminal shows: "\r" + erase starts the line again.
std::vector<std::string> draws(const std::string& text) {
  std::vector<std::string> parts;
  const std::string erase = "\r\x1b[K";
  for (size_t at = text.find(erase); at != text.npos;) {
    const size_t next = text.find(erase, at + 1);
    parts.push_back(text.substr(at + erase.size(), next == text.npos ? next : next - at - erase.size()));
    at = next;
  }
  return parts;
}

TEST_F(ProgressTest, PipePrintsByTimeAndAlwaysTheLast) {
  Progress progress("train", 31, options(false));
  for (int step = 1; step <= 31; ++step) {
    progress.update(step, "loss 3.2");
    now_ += 1;
  }
  progress.finish();
  progress.finish();
  EXPECT_EQ(written(),
            "train 1/31 (3%)  loss 3.2\n"
            "train 11/31 (35%)  loss 3.2  20s left\n"
            "train 21/31 (67%)  loss 3.2  10s left\n"
            "train 31/31 (100%)  loss 3.2  30s\n");
}

TEST_F(ProgressTest, PipePrintsByStepsAndTheLastOnFinish) {
  ProgressOptions by_steps = options(false);
  by_steps.every_seconds = 0;
  by_steps.every_steps = 20;
  Progress progress("eval", 0, by_steps);
  for (int step = 0; step <= 50; ++step) progress.update(step);
  progress.finish();
  EXPECT_EQ(written(), "eval 0\neval 20\neval 40\neval 50\n");
}

TEST_F(ProgressTest, PipeHasNoControlCharacters) {
  {
    Progress progress("a\x1b[1m", 10, options(false));
    progress.update(1, "two\nlines");
    progress.message("note");
  }
  const std::string text = written();
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_EQ(text.find('\r'), text.npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST_F(ProgressTest, ResumedRunCountsItsOwnSpeed) {
  Progress progress("train", 1000, options(false));
  progress.update(900);
  now_ += 50;
  progress.update(950);
  EXPECT_NE(written().find("train 950/1000 (95%)  50s left\n"), std::string::npos);
}

TEST_F(ProgressTest, TerminalRedrawsAtMostTenTimesASecond) {
  Progress progress("train", 1000, options(true));
  for (int step = 1; step <= 1000; ++step) {
    progress.update(step);
    now_ += 0.001;
  }
  progress.finish();
  const std::string text = written();
  EXPECT_LE(draws(text).size(), 12u);
  EXPECT_GE(draws(text).size(), 9u);
  EXPECT_NE(draws(text).back().find("100%  1000/1000"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST_F(ProgressTest, TerminalNeverWraps) {
  for (const int columns : {1, 2, 10, 25, 40, 80, 200}) {
    ProgressOptions narrow = options(true);
    narrow.columns = columns;
    Progress progress("größe_損失", 100, narrow);
    progress.update(50, "loss 3.2 with quite a long detail, 128k tokens/s");
  }
  size_t next = 0;
  const std::vector<int> columns = {1, 2, 10, 25, 40, 80, 200};
  for (std::string line : draws(written())) {
    while (line.ends_with('\n')) line.pop_back();
    EXPECT_LT(display_width(line), columns[next]) << line;
    ++next;
  }
  EXPECT_EQ(next, columns.size());
}

TEST_F(ProgressTest, MessageStandsAboveTheBar) {
  Progress progress("train", 10, options(true));
  progress.message("before");
  progress.update(5);
  progress.message("checkpoint written");
  progress.finish();
  const std::string text = written();
  EXPECT_TRUE(text.starts_with("before\n\r\x1b[Ktrain "));
  const auto parts = draws(text);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(parts[1].starts_with("checkpoint written\ntrain ")) << "the bar is drawn again below";
  EXPECT_TRUE(text.ends_with("5/10\n"));
}

TEST_F(ProgressTest, ExceptionLeavesAFreshLine) {
  try {
    Progress progress("train", 10, options(true));
    progress.update(1);
    progress.update(3);
    throw std::runtime_error("disk full");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(written().ends_with("3/10\n"));
}

TEST_F(ProgressTest, NothingDoneNothingPrinted) {
  { Progress progress("train", 10, options(true)); }
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, MoreThanTheTotalIsStillFull) {
  Progress progress("train", 10, options(true));
  progress.update(12);
  EXPECT_NE(written().find("100%  12/10"), std::string::npos);
}

}  // namespace
}  // namespace siamese
