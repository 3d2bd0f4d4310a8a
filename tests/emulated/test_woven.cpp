// The feed-forward's products whose epilogues are woven into the products of the next tile
// (kernels/cuda/gemm_woven.cuh) without a GPU, held to the formulas in fp64 from the rounded product on.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/swiglu_woven.cuh"
#include "packed.h"

namespace siamese::kernels {
namespace {

struct Size {
  int m, f, k;
  unsigned clusters;
};
// Rows and columns that end within a tile; more tiles than clusters; parts with one step of k, with one or two, and
// with two or more.
const Size kSizes[] = {{300, 136, 512, 1}, {140, 296, 576, 1}, {70, 264, 1024, 2}};

size_t at(int i, int j = 1) { return static_cast<size_t>(i) * static_cast<size_t>(j); }

Packed random_numbers(int rows, int columns, double scale) {
  std::mt19937 random(static_cast<unsigned>(rows * 7 + columns));
  std::normal_distribution<double> draw(0, scale);
  Packed all(at(rows, columns));
  for (size_t i = 0; i < at(rows, columns); ++i) all.set(i, draw(random));
  return all;
}

/// From column `first` on, `columns` of them in rows of `stride`.
CUtensorMap boxes(const Packed& all, int first, int rows, int columns, int stride, int box_rows, int box_columns) {
  return hopper::Map::make(all.p + first, 1, rows, columns, stride, box_rows, box_columns);
}

template <class E>
void run(const Size& s, int half, const CUtensorMap& a, const CUtensorMap& b, const typename E::Maps& maps) {
  ASSERT_TRUE(woven_serves<E>(s.k));
  const int across = half > 0 ? E::kTileN / 2 : E::kTileN;
  const PingpongShape shape{(s.m + 255) / 256, (s.f + across - 1) / across, s.k / kDepth, half};
  emulator::launch(
      2 * s.clusters, {kPingpongThreads, 1, 1}, PingpongMemory<E>::kBytes, [&] { woven_kernel<E>(shape, a, b, maps); },
      2);
}

/// ‖got - want‖ / ‖want‖ over a matrix [m, columns]; numbers that were not written are not near.
template <class Want>
double error(const Packed& got, int m, int columns, const Want& want) {
  double difference = 0, norm = 0;
  for (int r = 0; r < m; ++r)
    for (int c = 0; c < columns; ++c) {
      const double w = want(r, c);
      difference += std::pow(got[at(r, columns) + at(c)] - w, 2), norm += w * w;
    }
  return std::sqrt(difference / norm);
}

double silu(double g) { return g / (1 + std::exp(-g)); }

TEST(EmulatedWoven, ProductAndSwiglu) {
  for (const Size& s : kSizes) {
    SCOPED_TRACE(s.m);
    const Packed x = random_numbers(s.m, s.k, 1), w = random_numbers(2 * s.f, s.k, 0.1);
    const Packed p(at(s.m, 2 * s.f)), h(at(s.m, s.f));
    using E = WovenForward;
    const E::Maps maps{boxes(p, 0, s.m, s.f, 2 * s.f, 64, 32), boxes(p, s.f, s.m, s.f, 2 * s.f, 64, 32),
                       boxes(h, 0, s.m, s.f, s.f, 64, 32)};
    run<E>(s, s.f, boxes(x, 0, s.m, s.k, s.k, kTileM, 64), boxes(w, 0, 2 * s.f, s.k, s.k, E::kHalf, 64), maps);
    EXPECT_LT(error(p, s.m, 2 * s.f,
                    [&](int r, int c) {
                      double sum = 0;
                      for (int i = 0; i < s.k; ++i) sum += x[at(r, s.k) + at(i)] * w[at(c, s.k) + at(i)];
                      return sum;
                    }),
              0.003);
    EXPECT_LT(error(h, s.m, s.f,
                    [&](int r, int c) {
                      const size_t row = at(r, 2 * s.f);
                      return p[row + at(c)] * silu(p[row + at(c) + at(s.f)]);
                    }),
              0.003);
  }
}

TEST(EmulatedWoven, ProductAndSwiglusGradient) {
  for (const Size& s : kSizes) {
    SCOPED_TRACE(s.m);
    const Packed g = random_numbers(s.m, s.k, 1), w = random_numbers(s.k, s.f, 0.1),
                 p = random_numbers(s.m, 2 * s.f, 2);
    const Packed g_p(at(s.m, 2 * s.f)), h(at(s.m, s.f));
    Packed g_h(at(s.m, s.f));
    for (int r = 0; r < s.m; ++r)
      for (int c = 0; c < s.f; ++c) {
        double sum = 0;
        for (int i = 0; i < s.k; ++i) sum += g[at(r, s.k) + at(i)] * w[at(i, s.f) + at(c)];
        g_h.set(at(r, s.f) + at(c), sum);
      }
    using E = WovenBackward;
    const auto part = [&](const Packed& all, int first) { return boxes(all, first, s.m, s.f, 2 * s.f, 64, 32); };
    const E::Maps maps{part(p, 0), part(p, s.f), part(g_p, 0), part(g_p, s.f), boxes(h, 0, s.m, s.f, s.f, 64, 32)};
    run<E>(s, 0, boxes(g, 0, s.m, s.k, s.k, kTileM, 64), boxes(w, 0, s.k, s.f, s.f, kDepth, 64), maps);
    const auto value = [&](int r, int c) { return p[at(r, 2 * s.f) + at(c)]; };
    EXPECT_LT(error(h, s.m, s.f, [&](int r, int c) { return value(r, c) * silu(value(r, c + s.f)); }), 0.003);
    EXPECT_LT(error(g_p, s.m, 2 * s.f,
                    [&](int r, int c) {
                      const int column = c % s.f;
                      const double v = value(r, column), gate = value(r, column + s.f),
                                   sigma = 1 / (1 + std::exp(-gate)), of_h = g_h[at(r, s.f) + at(column)];
                      return c < s.f ? of_h * gate * sigma : of_h * v * sigma * (1 + gate * (1 - sigma));
                    }),
              0.004);
  }
}

}  // namespace
}  // namespace siamese::kernels
