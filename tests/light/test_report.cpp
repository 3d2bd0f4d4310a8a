#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "report/markup.h"
#include "report/report.h"
#include "report/table.h"
#include "util/error.h"
#include "util/utf8.h"

namespace siamese {
namespace {

class MetricsFile : public ::testing::Test {
 protected:
  MetricsFile() {
    folder_ =
        std::filesystem::temp_directory_path() / ("siamese_report_" + std::to_string(::getpid()) + "_" +
                                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  ~MetricsFile() override { std::filesystem::remove_all(folder_); }

  RunCurves read(const std::string& content) {
    std::ofstream(folder_ / "metrics.jsonl", std::ios::binary) << content;
    return read_run(folder_.string(), "run");
  }

  std::string error_of(const std::string& content) {
    try {
      read(content);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

using Points = std::vector<std::pair<double, double>>;

TEST_F(MetricsFile, StepAndEvaluationLines) {
  const RunCurves run = read(
      "{\"step\":1,\"loss\":5.5,\"lr\":1e-4,\"grad_norm\":2,\"tokens\":512,\"tokens_per_s\":1000}\n"
      "{\"step\":2,\"loss\":5.0,\"lr\":2e-4,\"grad_norm\":1}\r\n"
      "\n"
      "{\"step\":2,\"validation_loss\":5.2,\"accuracy\":0.1,\"seconds\":3}\n");
  EXPECT_EQ(run.label, "run");
  EXPECT_EQ(run.loss, (Points{{1, 5.5}, {2, 5.0}}));
  EXPECT_EQ(run.lr, (Points{{1, 1e-4}, {2, 2e-4}}));
  EXPECT_EQ(run.grad_norm, (Points{{1, 2}, {2, 1}}));
  EXPECT_EQ(run.tokens_per_s, (Points{{1, 1000}}));
  EXPECT_EQ(run.validation_loss, (Points{{2, 5.2}}));
  EXPECT_EQ(run.accuracy, (Points{{2, 0.1}}));
}

TEST_F(MetricsFile, CutLastLineIsLeftOut) {
  const std::string good = "{\"step\":1,\"loss\":5.5}\n", next = "{\"step\":2,\"loss\":5.25}";
  for (size_t length = 0; length < next.size(); ++length) {
    EXPECT_EQ(read(good + next.substr(0, length)).loss.size(), 1u) << length;
  }
  EXPECT_EQ(read(good + next).loss.size(), 2u) << "whole, only the newline is missing";
}

TEST_F(MetricsFile, EmptyFileIsARunWithoutSteps) { EXPECT_TRUE(read("").loss.empty()); }

TEST_F(MetricsFile, NonFiniteValuesAreKeptAsNan) {
  const RunCurves run = read(
      "{\"step\":1,\"loss\":null}\n{\"step\":2,\"loss\":\"nan\"}\n{\"step\":3,\"loss\":\"-inf\"}\n"
      "{\"step\":4,\"loss\":\"Infinity\"}\n{\"step\":5,\"loss\":3}\n");
  ASSERT_EQ(run.loss.size(), 5u);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(run.loss[i].second)) << i;
  EXPECT_EQ(run.loss[4], (std::pair<double, double>{5, 3}));
}

TEST_F(MetricsFile, ResumedRunReplacesWhatItRepeats) {
  const RunCurves run = read(
      "{\"step\":1,\"loss\":9}\n{\"step\":2,\"loss\":8}\n{\"step\":3,\"loss\":7}\n{\"step\":3,\"validation_loss\":7}\n"
      "{\"step\":2,\"loss\":80}\n");
  EXPECT_EQ(run.loss, (Points{{1, 9}, {2, 80}}));
  EXPECT_TRUE(run.validation_loss.empty());
}

TEST_F(MetricsFile, BadLinesNameFileAndLine) {
  const std::string good = "{\"step\":1,\"loss\":5.5}\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"step\":2,\"lo\n" + good, "not a JSON object"},
      {"[1,2]\n", "not a JSON object"},
      {"7", "not a JSON object"},
      {"{\"loss\":1}\n", "\"step\""},
      {"{\"step\":-1}\n", "\"step\""},
      {"{\"step\":\"2\"}\n", "\"step\""},
      {"{\"step\":2,\"loss\":\"low\"}\n", "\"loss\""},
      {"{\"step\":2,\"lr\":[1]}\n", "\"lr\""},
      {"{\"step\":2,\"accuracy\":true}\n", "\"accuracy\""},
      {"{\"step\":2,\"loss\":1e999}\n", "not a JSON object"},
      {std::string("\0\x01\xff\n", 4), "not a JSON object"},
  };
  for (const auto& [line, reason] : cases) {
    const std::string message = error_of(good + line);
    EXPECT_NE(message.find("metrics.jsonl:2: "), message.npos) << message;
    EXPECT_NE(message.find(reason), message.npos) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << "one line";
  }
  EXPECT_THROW(read_run((folder_ / "nowhere").string(), "x"), Error);
}

TEST(Markup, EscapesAndRepairs) {
  EXPECT_EQ(escape_markup("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escape_markup("grün\t€\n🙂"), "grün\t€\n🙂");
  EXPECT_EQ(escape_markup("a\x01\xff\xe2\x82"), "a\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escape_markup("\xc0\xaf\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD") << "overlong, surrogate";
}

TEST(Utf8, WidthAndCut) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("größe…"), 6);
  EXPECT_EQ(display_width("損失"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdef", 4), "abc…");
  EXPECT_EQ(cut_to_width("損失関数", 4), "損…");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

TEST(TextTable, NumbersRightTextLeft) {
  const Table table = {{"run", "loss", "note"}, {"prenorm", "3.2", "ok"}, {"größe", "12.25", ""}, {"x", "nan", "cut"}};
  EXPECT_EQ(render_text(table),
            "run       loss  note\n"
            "-------  -----  ----\n"
            "prenorm    3.2  ok\n"
            "größe    12.25\n"
            "x          nan  cut\n");
}

TEST(TextTable, RaggedAndHostileCells) {
  EXPECT_EQ(render_text({}), "");
  EXPECT_EQ(render_text({{"a"}, {"b", "c"}}), "a\n-  -\nb  c\n");
  EXPECT_EQ(render_text({{"a"}, {"\x1b[2J\n"}}).find('\x1b'), std::string::npos);
}

TEST(TableCells, NumbersAndBest) {
  EXPECT_EQ(cell_number("12,340"), 12340);
  EXPECT_EQ(cell_number("1.5M"), 1.5e6);
  EXPECT_EQ(cell_number("-.5"), -.5);
  EXPECT_EQ(cell_number("3.1 ± 0.2"), 3.1);
  for (const char* text : {"", "-", "nan", "inf", "step 3", "1e999", "--"}) EXPECT_FALSE(cell_number(text)) << text;
  const Table table = {{"run", "loss", "accuracy", "layers"},
                       {"a", "3.1", "10%", "12"},
                       {"b", "2.9", "9%", "6"},
                       {"c", "2.9", "-", "6"},
                       {"d", "nan"}};
  EXPECT_TRUE(best_rows(table, 0).empty());
  EXPECT_EQ(best_rows(table, 1), (std::vector<size_t>{2, 3}));
  EXPECT_EQ(best_rows(table, 2), (std::vector<size_t>{1}));
  EXPECT_TRUE(best_rows(table, 3).empty()) << "no direction known";
  EXPECT_TRUE(best_rows({{"loss"}, {"1"}, {"1"}}, 0).empty()) << "all equal";
}

}  // namespace
}  // namespace siamese
