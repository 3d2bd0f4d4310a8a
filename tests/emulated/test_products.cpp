// Products whose epilogues finish q, k and v (kernels/cuda/gemm_pingpong.cuh and gemm_woven.cuh) without a GPU, held to
// the formulas in fp64 from the rounded product on.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cuda/qkv_woven.cuh"
#include "packed.h"

namespace siamese::kernels {
namespace {

struct Size {
  int m, length, heads, kv_heads, k;
  unsigned clusters;

  int all() const { return heads + 2 * kv_heads; }
};

/// Of q and k: one is 0; all alike; but for one pair of k's. One of v's is 0.
enum class Gains { some, alike, almost };

class QkvCase {
 public:
  static constexpr int kDim = 64;

  explicit QkvCase(const Size& size, Gains gains = Gains::some)
      : s_(size),
        n_(size.all() * kDim),
        kept_((size.heads + size.kv_heads) * kDim),
        x_(at(size.m, size.k)),
        w_(at(n_, size.k)),
        out_(at(size.m, n_)),
        raw_(at(size.m, kept_)),
        product_(at(size.m, n_)) {
    std::mt19937 random(static_cast<unsigned>(size.m));
    std::normal_distribution<double> draw(0, 1);
    for (size_t i = 0; i < at(s_.m, s_.k); ++i) x_.set(i, draw(random));
    for (size_t i = 0; i < at(n_, s_.k); ++i) w_.set(i, draw(random));
    for (size_t i = 0; i < 3 * kDim; ++i) {
      const bool zero = i % kDim == 7 && (gains == Gains::some || i >= 2 * kDim);
      gain_.set(i, zero ? 0 : std::clamp(1 + 0.3 * draw(random), 0.5, 2.0));
    }
    if (gains == Gains::almost) gain_.set(kDim + 5, 0.5), gain_.set(kDim + 37, 2.0625);
    for (int t = 0; t < s_.length; ++t)
      for (int i = 0; i < kDim / 2; ++i) {
        const double angle = t * std::pow(10000., -i / 32.);
        cos_.push_back(static_cast<float>(std::cos(angle))), sin_.push_back(static_cast<float>(std::sin(angle)));
      }
    for (int t = 0; t < s_.m; ++t)
      for (int c = 0; c < n_; ++c) {
        double sum = 0;
        for (int i = 0; i < s_.k; ++i) sum += x_[at(t, s_.k) + at(i)] * w_[at(c, s_.k) + at(i)];
        product_.set(at(t, n_) + at(c), sum);
      }
  }

  template <class E>
  void check_turned() {
    run<E>(typename E::Maps{boxes(out_, s_.m, n_, 64), table()});
    compare(false);
  }
  /// `wants_raw`: x of q and k has to be there; otherwise it has to be as it was.
  template <class E>
  void check_normed(bool wants_raw) {
    rho_.assign(at(s_.all(), s_.m), NAN);
    typename E::Maps maps{};
    maps.out = boxes(out_, s_.m, n_, 64), maps.raw = boxes(raw_, s_.m, kept_, 64), maps.table = table();
    for (size_t i = 0; i < 3; ++i) maps.gain[i] = reinterpret_cast<const bfloat*>(gain_.p) + i * kDim;
    maps.rho = rho_.data(), maps.queries = s_.heads, maps.tokens = s_.m, maps.eps = 1e-5f;
    run<E>(maps);
    wants_raw_ = wants_raw;
    compare(true);
  }

 private:
  static size_t at(int i, int j = 1) { return static_cast<size_t>(i) * static_cast<size_t>(j); }
  RopeTable table() const { return {cos_.data(), sin_.data(), s_.length, s_.heads + s_.kv_heads}; }
  static CUtensorMap boxes(const Packed& all, int rows, int columns, int box_rows) {
    return hopper::Map::make(all.p, 1, rows, columns, columns, box_rows, 64);
  }

  template <class E>
  void run(const typename E::Maps& maps) {
    const PingpongShape shape{(s_.m + 255) / 256, (n_ + E::kTileN - 1) / E::kTileN, s_.k / 64, 0};
    const CUtensorMap a = boxes(x_, s_.m, s_.k, kTileM), b = boxes(w_, n_, s_.k, E::kTileN / 2);
    emulator::launch(
        2 * s_.clusters, {kPingpongThreads, 1, 1}, PingpongMemory<E>::kBytes,
        [&] {
          if constexpr (std::is_base_of_v<WovenHeads, E>) {
            woven_kernel<E>({shape, nullptr, nullptr}, a, b, maps);
          } else {
            pingpong_kernel<E>(shape, a, b, maps);
          }
        },
        2);
  }

  /// Sums of another order may be rounded to the next number.
  static void expect_near(double got, double want, double part, const char* what) {
    ASSERT_LE(std::abs(got - want), part * std::abs(want) + 1e-3) << what;
  }
  void compare(bool normed) const {
    double error = 0, norm = 0;
    for (int t = 0; t < s_.m; ++t)
      for (int h = 0; h < s_.all() && !::testing::Test::HasFatalFailure(); ++h) {
        const size_t from = at(t, n_) + at(h, kDim);
        const size_t part = h < s_.heads ? 0 : h < s_.heads + s_.kv_heads ? 1 : 2;
        double y[kDim], squares = 0;
        for (size_t i = 0; i < kDim; ++i) {
          y[i] = product_[from + i], squares += y[i] * y[i];
          if (!normed || part == 2) continue;
          const double x = raw_[at(t, kept_) + at(h, kDim) + i];
          if (wants_raw_) {
            expect_near(x, y[i], 0x1.02p-7, "x");
          } else {
            EXPECT_TRUE(std::isnan(x));
          }
        }
        const double rho = 1 / std::sqrt(squares / kDim + 1e-5);
        if (normed) expect_near(rho_[at(h, s_.m) + at(t)], rho, 1e-3, "rho");
        for (size_t i = 0; normed && i < kDim; ++i) y[i] *= rho * gain_[part * kDim + i];
        for (size_t i = 0; part < 2 && i < kDim / 2; ++i) {
          const size_t angle = at(t % s_.length, kDim / 2) + i;
          const double a = y[i], b = y[i + kDim / 2], c = cos_[angle], s = sin_[angle];
          y[i] = a * c - b * s, y[i + kDim / 2] = b * c + a * s;
        }
        for (size_t i = 0; i < kDim; ++i) error += std::pow(out_[from + i] - y[i], 2), norm += y[i] * y[i];
      }
    EXPECT_LT(std::sqrt(error / norm), 0.002);
  }

  Size s_;
  int n_, kept_;
  Packed x_, w_, out_, raw_, product_, gain_{3 * kDim};
  std::vector<float> cos_, sin_, rho_;
  bool wants_raw_ = true;
};

// Rows that end within a tile; tiles with heads of q and of k, and past the last head; more tiles than clusters, more
// depth steps than stages.
const Size kSizes[] = {{300, 100, 2, 2, 128, 1}, {70, 35, 4, 2, 64, 2}, {140, 70, 2, 2, 512, 1}};
// Woven: a part with one step of k or with two as well, tiles with heads of q, of k and of v.
const Size kWoven[] = {{140, 70, 2, 2, 512, 1}, {300, 100, 5, 2, 576, 1}};

TEST(EmulatedProducts, TurnQueriesAndKeys) {
  for (const Size& size : kSizes) QkvCase(size).check_turned<QkvRopeEpilogue<3>>();
  for (const Size& size : kWoven) QkvCase(size).check_turned<WovenRope>();
}
TEST(EmulatedProducts, NormAndTurn) {
  for (const Size& size : kSizes) QkvCase(size).check_normed<QkvNormEpilogue<false>>(true);
  for (const Size& size : kWoven) QkvCase(size).check_normed<WovenNorm<false>>(true);
}

template <template <bool> class E>
void check_lean(const Size& size) {
  QkvCase(size).check_normed<E<true>>(true);
  QkvCase(size, Gains::alike).check_normed<E<true>>(false);
}
TEST(EmulatedProducts, NormAndTurnAndKeepWhatIsNotTold) {
  for (const Size& size : kSizes) check_lean<QkvNormEpilogue>(size);
  for (const Size& size : kWoven) check_lean<WovenNorm>(size);
  QkvCase(kSizes[0], Gains::almost).check_normed<QkvNormEpilogue<true>>(true);
  QkvCase(kWoven[0], Gains::almost).check_normed<WovenNorm<true>>(true);
  QkvCase(kSizes[0], Gains::alike).check_normed<QkvNormEpilogue<false>>(true);
}

}  // namespace
}  // namespace siamese::kernels
