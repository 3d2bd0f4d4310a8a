// `generate` and `eval` on trained runs.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "process.h"

namespace siamese::test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// One byte model with averaged weights and one token model, trained once for all tests of this file.
class Trained : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    std::string ids;
    for (int i = 0; i < 4000; ++i) ids += {static_cast<char>(i * i % 50), '\0'};
    write(*folder_ / "ids.u16", ids);
    const Args bytes = tiny_train(*folder_ / "bytes", 20, 0) + Args{"--set", "train.ema=0.9"};
    const Args tokens = tiny_train(*folder_ / "tokens", 20, 0) +
                        Args{"--set", "data.tokens=" + *folder_ / "ids.u16", "--set", "model.vocab_size=50"};
    ASSERT_EQ(run_siamese(bytes).status, 0);
    ASSERT_EQ(run_siamese(tokens).status, 0);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string at(const std::string& name) { return *folder_ / name; }
  static std::string generated(const Args& args) {
    const Outcome outcome = run_siamese(Args{"generate"} + args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  }
  /// The number behind a name in the output of `eval`.
  static double value(const std::string& out, const std::string& name) {
    for (const std::string& line : lines(out))
      if (line.starts_with(name + " ")) return std::stod(line.substr(name.size()));
    return NAN;
  }

  static inline TempFolder* folder_ = nullptr;
};

TEST_F(Trained, TextIsReproducibleBySeed) {
  const Args args = {at("bytes"), "--prompt", "Größe", "--tokens", "40", "--seed"};
  const std::string a = generated(args + Args{"3"});
  EXPECT_TRUE(a.starts_with("Größe")) << a;
  EXPECT_EQ(a, generated(args + Args{"3"}));
  EXPECT_NE(a, generated(args + Args{"4"}));
  EXPECT_EQ(a, generated(args + Args{"3", "--no-cache"}));
  EXPECT_NE(a, generated(args + Args{"3", "--ema"}));
}

TEST_F(Trained, ColdIsTheMostLikely) {
  const Args args = {at("tokens"), "--ids", "1,2,3", "--tokens", "12"};
  const std::string greedy = generated(args + Args{"--temperature", "0"});
  EXPECT_EQ(greedy, generated(args + Args{"--top-k", "1", "--seed", "9"}));
  EXPECT_EQ(greedy, generated(args + Args{"--top-p", "0", "--seed", "8"}));
  std::istringstream ids(greedy);
  int count = 0;
  for (int id = 0; ids >> id; ++count) EXPECT_TRUE(id >= 0 && id < 50) << id;
  EXPECT_EQ(count, 12);
}

TEST_F(Trained, TextAppearsWhileItIsWritten) {
  Process process(siamese_command({"generate", at("tokens"), "--ids", "1", "--tokens", "1000000", "--threads", "1"}));
  ASSERT_TRUE(process.wait_until([&] { return process.out().size() > 100; })) << process.err();
  EXPECT_TRUE(process.running()) << "everything came at the end";
}

TEST_F(Trained, EvalOnTheRunAndOnOtherData) {
  const Outcome own = run_siamese({"eval", at("bytes"), "--batches", "4"});
  ASSERT_EQ(own.status, 0) << own.err;
  const double loss = value(own.out, "validation_loss");
  EXPECT_NEAR(std::log(value(own.out, "perplexity")), loss, 1e-3) << own.out;
  EXPECT_NEAR(value(own.out, "bits_per_byte") * std::log(2.0), loss, 1e-3) << own.out;
  EXPECT_TRUE(contains(own.out, "step 20")) << own.out;

  std::string text;
  for (int i = 0; i < 100; ++i) text += "Quite another text, line " + std::to_string(i) + ".\n";
  write(at("other book.txt"), text);
  const Outcome other = run_siamese({"eval", at("bytes"), "--data", at("other book.txt")});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_TRUE(contains(other.out, at("other book.txt"))) << other.out;
  EXPECT_NE(value(other.out, "validation_loss"), loss);
  const Outcome average = run_siamese({"eval", at("bytes"), "--data", at("other book.txt"), "--ema"});
  EXPECT_NE(value(average.out, "validation_loss"), value(other.out, "validation_loss"));

  const Outcome tokens = run_siamese({"eval", at("tokens"), "--data", at("ids.u16"), "--dtype", "uint16"});
  ASSERT_EQ(tokens.status, 0) << tokens.err;
  EXPECT_GT(value(tokens.out, "perplexity"), 1.0) << tokens.out;
  EXPECT_FALSE(contains(tokens.out, "bits_per_byte")) << "tokens are not bytes";
}

TEST_F(Trained, SmallestDataThereIs) {
  write(at("two bytes"), "ab");
  const Outcome outcome = run_siamese({"eval", at("bytes"), "--data", at("two bytes")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(std::isfinite(value(outcome.out, "validation_loss"))) << outcome.out;
}

}  // namespace
}  // namespace siamese::test
