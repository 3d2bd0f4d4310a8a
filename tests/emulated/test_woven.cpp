// The feed-forward's products whose epilogues are woven into the products of the next tile
// (kernels/cuda/gemm_woven.cuh) without a GPU, held to the formulas in fp64 from the rounded product on.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cuda/gemm_wide.cuh"
#include "kernels/cuda/swiglu_woven.cuh"
#include "packed.h"

namespace siamese::kernels {
namespace {

struct Size {
  int m, f, k;
  unsigned clusters;
  bool shares;
};
// Rows and columns that end within a tile; more tiles than clusters; parts with one step of k, with one or two, and
// with two or more.
const Size kSizes[] = {{300, 136, 512, 1, false}, {140, 296, 576, 1, false}, {70, 264, 1024, 2, true}};

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

/// All blocks at a time; `shares`: what is no whole turn of tiles is shared by steps of k.
template <class E>
void run(int m, int across, int k, int half, unsigned clusters, bool shares, const CUtensorMap& a, const CUtensorMap& b,
         const typename E::Maps& maps) {
  ASSERT_TRUE(woven_serves<E>(k));
  const PingpongShape tiles{(m + 255) / 256, across, (k + kDepth - 1) / kDepth, half};
  std::vector<float> partial(shares ? at(2 * static_cast<int>(clusters), 2 * 64 * 256) + 4 : 0, NAN);
  std::vector<int> told(4 * clusters, 0);
  float* aligned = shares ? partial.data() + (16 - reinterpret_cast<uintptr_t>(partial.data()) % 16) % 16 / 4 : nullptr;
  emulator::launch(
      2 * clusters, {kPingpongThreads, 1, 1}, PingpongMemory<E>::kBytes,
      [&] {
        woven_kernel<E>({tiles, aligned, told.data()}, a, b, maps);
      },
      2 * clusters, 2);
  EXPECT_EQ(told, std::vector<int>(4 * clusters, 0));
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
    run<E>(s.m, (s.f + E::kHalf - 1) / E::kHalf, s.k, s.f, s.clusters, s.shares, boxes(x, 0, s.m, s.k, s.k, kTileM, 64),
           boxes(w, 0, 2 * s.f, s.k, s.k, E::kHalf, 64), maps);
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
    run<E>(s.m, (s.f + E::kTileN - 1) / E::kTileN, s.k, 0, s.clusters, s.shares, boxes(g, 0, s.m, s.k, s.k, kTileM, 64),
           boxes(w, 0, s.k, s.f, s.f, kDepth, 64), maps);
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

/// Tiles [256, 256] of a product, clusters at work, how A and B lie.
struct Plain {
  int m, n, k;
  unsigned clusters;
};
// Whole turns alone; a turn and a tile shared by all; a tile in three pieces; tiles that end within pieces; k that is
// no whole number of steps; fewer steps than would do for all clusters.
const Plain kPlain[] = {{200, 264, 256, 2}, {300, 520, 320, 2},  {136, 72, 1096, 3}, {260, 400, 640, 3},
                        {72, 520, 328, 4},  {136, 304, 1600, 4}, {8, 8, 1024, 8},    {264, 264, 832, 7}};

template <bool m_fastest, bool n_fastest>
void check_plain() {
  using E = WovenPlain<m_fastest, n_fastest>;
  for (const auto& [m, n, k, clusters] : kPlain) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
    const Packed a = m_fastest ? random_numbers(k, m, 1) : random_numbers(m, k, 1);
    const Packed b = n_fastest ? random_numbers(k, n, 0.1) : random_numbers(n, k, 0.1);
    const Packed out(at(m, n));
    const CUtensorMap of_a = m_fastest ? boxes(a, 0, k, m, m, kDepth, 64) : boxes(a, 0, m, k, k, kTileM, 64);
    const CUtensorMap of_b = n_fastest ? boxes(b, 0, k, n, n, kDepth, 64) : boxes(b, 0, n, k, k, 128, 64);
    run<E>(m, (n + 255) / 256, k, 0, clusters, true, of_a, of_b, {boxes(out, 0, m, n, n, 64, 64)});
    EXPECT_LT(error(out, m, n,
                    [&, m = m, n = n, k = k](int r, int c) {
                      double sum = 0;
                      for (int i = 0; i < k; ++i)
                        sum += a[m_fastest ? at(i, m) + at(r) : at(r, k) + at(i)] *
                               b[n_fastest ? at(i, n) + at(c) : at(c, k) + at(i)];
                      return sum;
                    }),
              0.003);
  }
}
/// A piece of a tile as a cluster has it.
struct Piece {
  int part, begin, end;
};
/// Every step of every tile once, in pieces that are long enough; of a tile's pieces the first steps with the lowest
/// part, and no cluster gives away more than one.
void check_shares(int tiles, int steps, int clusters, int shortest) {
  float some = 0;
  const WovenShape shape{{tiles, 1, steps, 0}, &some, nullptr};
  std::vector<std::vector<Piece>> of_tile(static_cast<size_t>(tiles));
  std::vector<int> given(static_cast<size_t>(clusters), 0);
  const auto blocks = static_cast<unsigned>(2 * clusters);
  const auto walk = [&] {
    if (threadIdx.x != 0 || blockIdx.x % 2 != 0) return;
    for (WovenWork work(shape, shortest); work.more(); work.next()) {
      ASSERT_LT(work.tile, tiles);
      of_tile[static_cast<size_t>(work.tile)].push_back({work.part, work.begin, work.end});
      given[static_cast<size_t>(work.part)] += work.begin > 0 ? 1 : 0;
    }
  };
  emulator::launch(blocks, {32, 1, 1}, 0, walk, blocks, 2);
  for (std::vector<Piece>& pieces : of_tile) {
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    int done = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(pieces[i].begin, done);
      EXPECT_GE(pieces[i].end - pieces[i].begin, shortest);
      if (i > 0) {
        EXPECT_EQ(pieces[i].part, pieces[i - 1].part + 1);
      }
      done = pieces[i].end;
    }
    EXPECT_EQ(done, steps);
  }
  for (const int pieces : given) EXPECT_LE(pieces, 1);
}
TEST(EmulatedWoven, SharesAreWhole) {
  for (const int clusters : {1, 2, 5, 16})
    for (const auto& [shortest, steps] : {std::pair(4, 4), {4, 7}, {4, 16}, {4, 129}, {8, 8}, {8, 9}, {8, 16}, {8, 33}})
      for (const int tiles : {1, 2, 3, 7, 15, 16, 17, 50}) {
        SCOPED_TRACE(::testing::Message() << tiles << " tiles of " << steps << " steps, " << clusters << " clusters");
        check_shares(tiles, steps, clusters, shortest);
      }
}

TEST(EmulatedWoven, ProjectionAlone) { check_plain<false, false>(); }
TEST(EmulatedWoven, GradientOfItsInputAlone) { check_plain<false, true>(); }
TEST(EmulatedWoven, GradientOfItsWeightAlone) { check_plain<true, true>(); }

}  // namespace
}  // namespace siamese::kernels
