// Cross entropy with rows fetched ahead (kernels/cuda/cross_entropy_ahead.cuh) without a GPU, held to the formulas in
// fp64.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/cross_entropy_ahead.cuh"
#include "packed.h"

namespace siamese::kernels {
namespace {

// Blocks with one row, and with so many that the two places in shared memory are used again; targets at both ends, in
// the middle, none, and one that does not exist; values that all are -inf but one.
TEST(EmulatedCrossEntropy, RowsFetchedAhead) {
  constexpr int64_t kRows = 6, kVocab = 8 * (2 * kAheadThreads + 37);
  const size_t columns = kVocab;
  const std::vector<int64_t> targets{0, kVocab - 1, kVocab / 2 + 3, -100, kVocab, 8};
  for (const unsigned blocks : {1U, 2U, 5U}) {
    Packed z(kRows * columns);
    std::mt19937 random(blocks);
    std::normal_distribution<double> draw(0, 3);
    std::vector<double> before(kRows * columns);
    for (size_t i = 0; i < before.size(); ++i) {
      z.set(i, i / columns == 5 && i % columns != 8 ? -INFINITY : draw(random));
      before[i] = z[i];
    }
    const float count = 5;
    std::vector<float> losses(kRows, -1), squares(kRows, -1);
    CrossEntropyCuda p;
    p.logits = z.p, p.targets = targets.data(), p.count = &count;
    p.losses = losses.data(), p.squares = squares.data();
    p.type = 2, p.rows = kRows, p.vocab = kVocab, p.ignore = -100, p.scale = 0.5F, p.z_factor = 0.01F;
    p.gradient = true;
    emulator::launch(blocks, {kAheadThreads, 1, 1}, static_cast<size_t>(AheadMemory::bytes(kVocab / 8)),
                     [&] { cross_entropy_ahead_kernel(p); });
    for (size_t row = 0; row < kRows; ++row) {
      double max = -INFINITY, sum = 0;
      for (size_t c = 0; c < columns; ++c) max = std::max(max, before[row * columns + c]);
      for (size_t c = 0; c < columns; ++c) sum += std::exp(before[row * columns + c] - max);
      const double lse = max + std::log(sum);
      const int64_t target = targets[row];
      const bool counts = target != -100, there = target >= 0 && target < kVocab;
      const double hit = counts ? 0.5 / 5 : 0;
      EXPECT_NEAR(squares[row], lse * lse, 1e-4 * lse * lse);
      if (there) {
        EXPECT_NEAR(losses[row], lse - before[row * columns + static_cast<size_t>(target)], 1e-5 * (1 + std::abs(lse)));
      } else {
        EXPECT_TRUE(counts ? std::isnan(losses[row]) : losses[row] == 0) << losses[row];
      }
      for (size_t c = 0; c < columns; ++c) {
        const double g = std::exp(before[row * columns + c] - lse) * (hit + 0.01 * lse) -
                         (there && c == static_cast<size_t>(target) ? hit : 0);
        ASSERT_NEAR(z[row * columns + c], g, 5e-3 * std::abs(g) + 1e-9) << row << " " << c << " of " << blocks;
      }
    }
  }
}

}  // namespace
}  // namespace siamese::kernels
