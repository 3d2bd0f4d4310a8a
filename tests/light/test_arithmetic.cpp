// The bundled arithmetic: right answers, and nothing held out in training.
#include <map>
#include <set>
#include <sstream>

#include "data/sources.h"
#include "data_files.h"

namespace siamese {
namespace {

constexpr int64_t kLength = 256;

struct Parsed {
  uint32_t a, b;
  char op;
  int answer;
};

Parsed parse(const std::string& line) {
  Parsed p{};
  std::istringstream in(line);
  char equals = 0;
  in >> p.a >> p.op >> p.b >> equals >> p.answer;
  EXPECT_TRUE(in && in.peek() == EOF && equals == '=' && (p.op == '+' || p.op == '-')) << line;
  return p;
}

// The whole problems of a window: its last line is cut.
std::vector<std::string> lines(const std::vector<int64_t>& ids) {
  std::istringstream in(decode_bytes(ids));
  std::vector<std::string> list;
  for (std::string line; std::getline(in, line);) list.push_back(line);
  list.pop_back();
  return list;
}

void expect_right(const Parsed& p, bool held) {
  EXPECT_LT(p.a, 1000u);
  EXPECT_LT(p.b, 1000u);
  EXPECT_EQ(p.answer, p.op == '+' ? static_cast<int>(p.a + p.b) : static_cast<int>(p.a) - static_cast<int>(p.b));
  EXPECT_EQ(held_out(p.a, p.op, p.b), held);
}

TEST(Arithmetic, TrainingIsRightAndNeverHeldOut) {
  const auto source = make_arithmetic_source(kLength, 1);
  std::map<size_t, int> digits;
  int total = 0;
  for (int64_t index = 0; index < 20000; ++index) {
    for (const std::string& line : lines(sample(*source, index, kLength))) {
      const Parsed p = parse(line);
      expect_right(p, false);
      ++digits[std::to_string(p.a).size()];
      ++total;
    }
    if (HasFailure()) FAIL() << "sample " << index;
  }
  for (size_t d = 1; d <= 3; ++d) EXPECT_NEAR(digits[d] / static_cast<double>(total), 1 / 3.0, 0.02);
}

TEST(Arithmetic, ValidationIsRightAndHeldOutForEverySeed) {
  const auto one = make_arithmetic_source(kLength, 1), two = make_arithmetic_source(kLength, 2);
  EXPECT_EQ(one->validation_windows(), 256);
  for (int64_t index = 0; index < 256; ++index) {
    const auto ids = validation(*one, index, kLength);
    EXPECT_EQ(ids.size(), 257u);
    EXPECT_EQ(ids, validation(*two, index, kLength));
    for (const std::string& line : lines(ids)) expect_right(parse(line), true);
  }
}

TEST(Arithmetic, ProblemsAreHeldOutDistinctAndMixed) {
  const auto source = make_arithmetic_source(kLength, 1);
  const auto problems = source->problems(200);
  ASSERT_EQ(problems.size(), 200u);
  std::set<std::string> prompts;
  for (const Problem& problem : problems) {
    ASSERT_EQ(problem.prompt.back(), '=');
    ASSERT_EQ(problem.answer.back(), '\n');
    expect_right(parse(problem.prompt + problem.answer.substr(0, problem.answer.size() - 1)), true);
    prompts.insert(problem.prompt);
  }
  EXPECT_EQ(prompts.size(), 200u);
  EXPECT_EQ(make_arithmetic_source(kLength, 9)->problems(10)[7].prompt, problems[7].prompt);
  const size_t all = source->problems(10'000'000).size();
  EXPECT_NEAR(static_cast<double>(all), 100'000, 2'000);
  EXPECT_TRUE(source->problems(0).empty());
}

TEST(Arithmetic, SamplesFollowSeedAndIndex) {
  const auto one = make_arithmetic_source(kLength, 1), two = make_arithmetic_source(kLength, 2);
  EXPECT_EQ(sample(*one, 5, kLength), sample(*make_arithmetic_source(kLength, 1), 5, kLength));
  EXPECT_NE(sample(*one, 5, kLength), sample(*one, 6, kLength));
  EXPECT_NE(sample(*one, 5, kLength), sample(*two, 5, kLength));
}

}  // namespace
}  // namespace siamese
