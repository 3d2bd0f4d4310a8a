// Cross entropy with rows fetched ahead (kernels/cuda/cross_entropy_ahead.cuh) without a GPU, held to the formulas in
// fp64.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/cross_entropy_ahead.cuh"
#include "packed.h"

namespace siamese::kernels {
namespace {

constexpr float kCount = 5, kScale = 0.5F, kZ = 0.01F;

/// Rows of `columns` logits, and what the kernel makes of them.
struct Rows {
  size_t columns;
  std::vector<int64_t> targets;
  std::vector<double> before;
  Packed z;
  std::vector<float> losses, squares;

  Rows(size_t vocab, const std::vector<int64_t>& wanted)
      : columns(vocab),
        targets(wanted),
        before(wanted.size() * vocab),
        z(before.size()),
        losses(wanted.size(), -1),
        squares(wanted.size(), -1) {
    std::mt19937 random(static_cast<unsigned>(vocab));
    std::normal_distribution<double> draw(0, 3);
    for (size_t i = 0; i < before.size(); ++i) put(i, draw(random));
  }
  void put(size_t i, double value) {
    z.set(i, value);
    before[i] = z[i];
  }
  void fill(size_t row, double value) {
    for (size_t c = 0; c < columns; ++c) put(row * columns + c, value);
  }
  void run(unsigned blocks) {
    CrossEntropyCuda p;
    p.logits = z.p, p.targets = targets.data(), p.count = &kCount;
    p.losses = losses.data(), p.squares = squares.data();
    p.type = 2, p.rows = static_cast<int64_t>(targets.size()), p.vocab = static_cast<int64_t>(columns);
    p.ignore = -100, p.scale = kScale, p.z_factor = kZ, p.gradient = true;
    emulator::launch(blocks, {kAheadThreads, 1, 1}, static_cast<size_t>(AheadMemory::bytes(p.vocab / 8)),
                     [&] { cross_entropy_ahead_kernel(p); });
  }
  void expect_right(size_t row) const {
    double max = -INFINITY, sum = 0;
    for (size_t c = 0; c < columns; ++c) max = std::max(max, before[row * columns + c]);
    for (size_t c = 0; c < columns; ++c) sum += std::exp(before[row * columns + c] - max);
    const double lse = max + std::log(sum);
    const int64_t target = targets[row];
    const bool counts = target != -100, there = target >= 0 && target < static_cast<int64_t>(columns);
    const double hit = counts ? double{kScale} / kCount : 0;
    EXPECT_NEAR(squares[row], lse * lse, 1e-6 * lse * lse) << row;
    if (there) {
      EXPECT_NEAR(losses[row], lse - before[row * columns + static_cast<size_t>(target)], 1e-6 * (1 + std::abs(lse)));
      EXPECT_GE(losses[row], 0) << row;
    } else {
      EXPECT_TRUE(counts ? std::isnan(losses[row]) : losses[row] == 0) << losses[row];
    }
    for (size_t c = 0; c < columns; ++c) {
      const double g = std::exp(before[row * columns + c] - lse) * (hit + kZ * lse) -
                       (there && c == static_cast<size_t>(target) ? hit : 0);
      ASSERT_NEAR(z[row * columns + c], g, 5e-3 * std::abs(g) + 1e-8) << row << " " << c;
    }
  }
};

constexpr int64_t kColumns = 8 * (2 * kAheadThreads + 37);

// Blocks with one row, and with so many that the two places in shared memory are used again; targets at both ends, in
// the middle, none, and some that do not exist.
TEST(EmulatedCrossEntropy, RowsFetchedAhead) {
  for (const unsigned blocks : {1U, 2U, 5U}) {
    Rows rows(kColumns, {0, kColumns - 1, kColumns / 2 + 3, -100, kColumns, 8, -1, int64_t{1} << 40});
    rows.run(blocks);
    for (size_t row = 0; row < rows.targets.size(); ++row) rows.expect_right(row);
  }
}

TEST(EmulatedCrossEntropy, EveryVectorOfAThread) {
  Rows rows(8 * kAheadVectors * kAheadThreads, {8 * kAheadVectors * kAheadThreads - 1, 5});
  rows.run(1);
  for (size_t row = 0; row < 2; ++row) rows.expect_right(row);
}

// One value is all of the sum: its exponential must be 1, whatever m·log2(e) is rounded to. Of these numbers the
// rounding alone would leave a loss of one unit in the last place.
TEST(EmulatedCrossEntropy, OneLogitAboveAllOthers) {
  const std::vector<double> values{1.40625, 1.4375, 1.5078125, 1.640625, 0.375, 15.875, 100.5, -3.25};
  Rows rows(kColumns, std::vector<int64_t>(values.size(), 9));
  for (size_t row = 0; row < values.size(); ++row) {
    rows.fill(row, -INFINITY);
    rows.put(row * kColumns + 9, values[row]);
  }
  rows.run(1);
  for (size_t row = 0; row < values.size(); ++row) {
    rows.expect_right(row);
    EXPECT_EQ(rows.losses[row], 0) << values[row];
  }
}

// There the rounding of m·log2(e) is no small number: of all of a row, and of what one thread has of it.
TEST(EmulatedCrossEntropy, LogitsFarFromZero) {
  const std::vector<double> values{3e7, -3e7, 1.5e6, 5000, -1e10, 1e30};
  Rows rows(kColumns, std::vector<int64_t>(values.size() + 1, 9));
  for (size_t row = 0; row < values.size(); ++row) rows.fill(row, values[row]);
  const size_t last = values.size() * kColumns;
  for (size_t vector = 1; vector * 8 < kColumns; vector += kAheadThreads)
    for (size_t i = 0; i < 8; ++i) rows.put(last + 8 * vector + i, -1e10);
  rows.targets.back() = 3;
  rows.run(2);
  for (size_t row = 0; row < values.size(); ++row) {
    const double n = kColumns, hit = double{kScale} / kCount, lse = rows.before[row * kColumns] + std::log(n);
    EXPECT_NEAR(rows.losses[row], lse - rows.before[row * kColumns], 1e-6 * std::abs(lse)) << values[row];
    const double g = (hit + kZ * lse) / n;
    EXPECT_NEAR(rows.z[row * kColumns + 1], g, 5e-3 * std::abs(g)) << values[row];
  }
  rows.expect_right(values.size());
}

TEST(EmulatedCrossEntropy, WhatIsNoNumberMakesTheLossNan) {
  Rows rows(kColumns, {3, 3, 3, 3});
  rows.put(7, NAN);
  rows.put(kColumns + 7, INFINITY);
  rows.fill(2, -INFINITY);
  rows.run(2);
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_TRUE(std::isnan(rows.losses[row])) << row;
    EXPECT_TRUE(std::isnan(rows.z[row * kColumns])) << row;
  }
  rows.expect_right(3);
}

}  // namespace
}  // namespace siamese::kernels
