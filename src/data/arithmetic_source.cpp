// Sums and differences of numbers with one to three digits: "12+7=19\n", "3-12=-9\n". A task with a right answer, so
// that minutes of training show more than a falling loss.
//
// The newline separates problems. eos() is 0 as for all bytes, but no id 0 occurs inside: problems are not documents.
#include <array>

#include "data/generated_source.h"
#include "data/permutation.h"
#include "data/sources.h"
#include "util/error.h"

namespace siamese {
namespace {

constexpr uint32_t kFirst[] = {0, 10, 100, 1000};  // numbers with d+1 digits: kFirst[d] … kFirst[d+1] - 1

struct Sum {
  uint32_t a, b;
  char op;

  std::string prompt() const { return fmt::format("{}{}{}=", a, op, b); }
  std::string answer() const {
    const int x = static_cast<int>(a), y = static_cast<int>(b);
    return fmt::format("{}\n", op == '+' ? x + y : x - y);
  }
};

// Digits are drawn before the number: among 0 … 999 alone, nine of ten numbers would have three.
uint32_t draw_number(Draws& draws) {
  const uint32_t d = draws.below(3);
  return kFirst[d] + draws.below(kFirst[d + 1] - kFirst[d]);
}

Sum draw_sum(Draws& draws) {
  const uint32_t a = draw_number(draws), b = draw_number(draws);
  return {a, b, draws.below(2) == 0 ? '+' : '-'};
}

class ArithmeticSource final : public GeneratedSource {
 public:
  using GeneratedSource::GeneratedSource;

  std::string describe() const override {
    return "arithmetic: sums and differences of one- to three-digit numbers, made as needed; 1 in 20 of the 2M "
           "problems held out";
  }

  /// All held-out problems in turns over the nine pairs of digit counts, so that any first few are as mixed as the
  /// training text; none twice.
  std::vector<Problem> problems(int64_t count) const override {
    std::array<std::vector<Sum>, 9> kinds;
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      const size_t i = kind / 3, j = kind % 3;
      for (uint32_t a = kFirst[i]; a < kFirst[i + 1]; ++a) {
        for (uint32_t b = kFirst[j]; b < kFirst[j + 1]; ++b) {
          for (const char op : {'+', '-'}) {
            if (held_out(a, op, b)) kinds[kind].push_back({a, b, op});
          }
        }
      }
    }
    std::vector<Problem> list;
    const RandomKey key(0, 0, site_at(kDataValidation, 1));
    for (size_t round = 0, before = 1; before != 0; ++round) {  // until no kind has any left
      before = 0;
      for (const auto& sums : kinds) {
        if (round >= sums.size()) continue;
        if (static_cast<int64_t>(list.size()) >= count) return list;
        const Sum& sum = sums[permute(round, sums.size(), key)];
        list.push_back({sum.prompt(), sum.answer()});
        ++before;
      }
    }
    return list;
  }

 protected:
  void append(Draws& draws, Part part, std::string& text) const override {
    Sum sum = draw_sum(draws);
    while (held_out(sum.a, sum.op, sum.b) != (part == Part::validation)) sum = draw_sum(draws);
    text += sum.prompt() + sum.answer();
  }
};

}  // namespace

bool held_out(uint32_t a, char op, uint32_t b) {
  const uint64_t code = (uint64_t{a} << 32) | (uint64_t{b} << 8) | static_cast<unsigned char>(op);
  return mix64(mix64(code) + 0x9e3779b97f4a7c15ULL) % 20 == 0;
}

std::unique_ptr<Source> make_arithmetic_source(int64_t sequence_length, uint64_t seed) {
  return std::make_unique<ArithmeticSource>(sequence_length, seed);
}

}  // namespace siamese
