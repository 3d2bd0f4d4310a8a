// Attention's backward pass in one pass (kernels/cuda/attention_at_once.cuh) in the emulator, and what it is held to:
// the formulas in fp64.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "emulator.h"
#include "kernels/cuda/attention_at_once.cuh"
#include "packed.h"

namespace siamese::kernels {

struct AttentionSize {
  int batch, heads, length, rows, team;
};
/// As they came, turned by their positions, or normed and turned.
enum class Heads { plain, turned, normed };

/// Heads of 64 with keys of their own, [batch, length, 3·heads, 64].
class AttentionCase {
 public:
  static constexpr size_t kDim = 64;

  AttentionCase(const AttentionSize& size, Heads heads)
      : size_(size),
        turned_(heads != Heads::plain),
        normed_(heads == Heads::normed),
        tokens_(static_cast<size_t>(size.batch * size.length)),
        heads_(static_cast<size_t>(size.heads)),
        qkv_(tokens_ * 3 * heads_ * kDim),
        g_(tokens_ * heads_ * kDim),
        out_(qkv_.memory.size()),
        raw_(qkv_.memory.size()),
        wanted_(tokens_ * 3 * heads_ * kDim) {
    std::mt19937 random(static_cast<unsigned>(7 + size.length));
    std::normal_distribution<double> draw(0, 1);
    for (size_t i = 0; i < tokens_ * 3 * heads_ * kDim; ++i) qkv_.set(i, draw(random));
    for (size_t i = 0; i < tokens_ * heads_ * kDim; ++i) g_.set(i, draw(random));
    if (normed_) norm(random);
    padded_ = (size.length + 127) / 128 * 128;
    log_sums_.assign(static_cast<size_t>(size.batch * size.heads * padded_), INFINITY);
    dots_.assign(log_sums_.size(), 0.f);
    for (int b = 0; b < size.batch; ++b)
      for (int h = 0; h < size.heads; ++h) differentiate(b, h);
    if (normed_) through_norms();
  }

  void check() {
    run();
    for (size_t kind = 0; kind < 3; ++kind) {
      double error = 0, norm = 0;
      for (size_t t = 0; t < tokens_; ++t)
        for (size_t h = 0; h < heads_; ++h)
          for (size_t i = 0; i < kDim; ++i) {
            const size_t at = place(t, kind, h) + i;
            error += std::pow(out_[at] - wanted_[at], 2), norm += std::pow(wanted_[at], 2);
          }
      EXPECT_LT(std::sqrt(error / norm), 0.006) << "gradient of "
                                                << "qkv"[kind];
    }
    if (normed_) check_gains();
  }

 protected:
  size_t place(size_t token, size_t kind, size_t head) const { return ((token * 3 + kind) * heads_ + head) * kDim; }
  size_t token(int b, int t) const { return static_cast<size_t>(b * size_.length + t); }
  float angle(int t, int i) const { return static_cast<float>(t) * std::pow(10000.f, -static_cast<float>(i) / 32.f); }
  void turn(double* g, int t, double sign) const {
    for (int i = 0; i < 32; ++i) {
      const double a = g[i], b = g[i + 32], c = std::cos(angle(t, i)), s = sign * std::sin(angle(t, i));
      g[i] = a * c - b * s, g[i + 32] = b * c + a * s;
    }
  }

  /// What is there becomes x, and y = R(γ·ρ·x) takes its place. Some gains are 0 and next to it.
  void norm(std::mt19937& random) {
    std::normal_distribution<double> draw(1, 0.3);
    for (size_t i = 0; i < 3 * kDim; ++i) gain_.set(i, i % kDim == 5 ? 0 : i % kDim == 40 ? -1e-3 : draw(random));
    normal_.resize(wanted_.size());
    rho_.resize(3 * heads_ * tokens_);
    for (size_t t = 0; t < tokens_; ++t)
      for (size_t kind = 0; kind < 3; ++kind)
        for (size_t h = 0; h < heads_; ++h) {
          const size_t at = place(t, kind, h);
          double squares = 0, y[kDim];
          for (size_t i = 0; i < kDim; ++i) {
            squares += std::pow(qkv_[at + i], 2);
            if (kind < 2) raw_.p[((t * 2 + kind) * heads_ + h) * kDim + i] = qkv_.p[at + i];
          }
          const double rho = 1 / std::sqrt(squares / kDim + 1e-5);
          rho_[(kind * heads_ + h) * tokens_ + t] = static_cast<float>(rho);
          for (size_t i = 0; i < kDim; ++i) {
            normal_[at + i] = rho * qkv_[at + i];
            y[i] = normal_[at + i] * head_gain(bfloat{gain_.p[kind * kDim + i]});
          }
          if (kind < 2) turn(y, static_cast<int>(t) % size_.length, 1);
          for (size_t i = 0; i < kDim; ++i) qkv_.set(at + i, y[i]);
        }
  }
  /// Wanted gradients of y become those of x.
  void through_norms() {
    for (size_t t = 0; t < tokens_; ++t)
      for (size_t kind = 0; kind < 3; ++kind)
        for (size_t h = 0; h < heads_; ++h) {
          const size_t at = place(t, kind, h);
          double* const g = &wanted_[at];
          double mean = 0;
          for (size_t i = 0; i < kDim; ++i) {
            g_gain_[kind * kDim + i] += g[i] * normal_[at + i];
            g[i] *= gain_[kind * kDim + i];
            mean += g[i] * normal_[at + i] / kDim;
          }
          for (size_t i = 0; i < kDim; ++i)
            g[i] = rho_[(kind * heads_ + h) * tokens_ + t] * (g[i] - mean * normal_[at + i]);
        }
  }
  void check_gains() {
    for (size_t kind = 0; kind < 3; ++kind) {
      double error = 0, norm = 0;
      for (size_t i = 0; i < kDim; ++i) {
        double sum = 0;
        for (size_t b = 0; b < partial_.size() / (3 * kDim); ++b) sum += partial_[(b * 3 + kind) * kDim + i];
        error += std::pow(sum - g_gain_[kind * kDim + i], 2), norm += std::pow(g_gain_[kind * kDim + i], 2);
      }
      EXPECT_LT(std::sqrt(error / norm), 0.003) << "gradient of the gain of "
                                                << "qkv"[kind];
    }
  }

  /// A head's sums and wanted gradients.
  void differentiate(int b, int h) {
    const auto n = static_cast<size_t>(size_.length), head = static_cast<size_t>(h);
    auto row = [&](size_t t, size_t kind) { return place(token(b, 0) + t, kind, head); };
    auto dot = [&](const Packed& x, size_t i, const Packed& y, size_t j) {
      double sum = 0;
      for (size_t c = 0; c < kDim; ++c) sum += x[i + c] * y[j + c];
      return sum;
    };
    for (size_t t = 0; t < n; ++t) {
      const size_t g_at = ((token(b, 0) + t) * heads_ + head) * kDim;
      std::vector<double> p(t + 1);
      double total = 0, d = 0;
      for (size_t j = 0; j <= t; ++j) total += p[j] = std::exp(dot(qkv_, row(t, 0), qkv_, row(j, 1)) / 8);
      for (size_t c = 0; c < kDim; ++c) {
        double o = 0;
        for (size_t j = 0; j <= t; ++j) o += p[j] / total * qkv_[row(j, 2) + c];
        d += o * g_[g_at + c];
      }
      const size_t number = static_cast<size_t>((b * size_.heads + h) * padded_) + t;
      log_sums_[number] = static_cast<float>(std::log2(total)), dots_[number] = static_cast<float>(d);
      for (size_t j = 0; j <= t; ++j) {
        p[j] /= total;
        const double ds = p[j] * (dot(g_, g_at, qkv_, row(j, 2)) - d) / 8;
        for (size_t c = 0; c < kDim; ++c) {
          wanted_[row(j, 2) + c] += p[j] * g_[g_at + c];
          wanted_[row(t, 0) + c] += ds * qkv_[row(j, 1) + c];
          wanted_[row(j, 1) + c] += ds * qkv_[row(t, 0) + c];
        }
      }
    }
    for (size_t t = 0; turned_ && t < n; ++t)
      for (size_t kind = 0; kind < 2; ++kind) turn(&wanted_[row(t, kind)], static_cast<int>(t), -1);
  }

  CUtensorMap boxes(const Packed& all, size_t columns, size_t first, int box_rows) const {
    return hopper::Map::make(all.p + first, size_.batch, size_.length, static_cast<int64_t>(heads_ * kDim),
                             static_cast<int64_t>(columns), box_rows, 64);
  }
  void run() {
    using namespace attention;
    const size_t wide = 3 * heads_ * kDim, d = heads_ * kDim;
    ColumnMaps maps{boxes(qkv_, wide, 0, 64), boxes(qkv_, wide, d, 128), boxes(qkv_, wide, 2 * d, 128),
                    boxes(g_, d, 0, 64),      boxes(out_, wide, d, 64),  boxes(out_, wide, 2 * d, 64)};
    const CUtensorMap g_q = boxes(out_, wide, 0, 64);
    const int blocks = static_cast<int>(padded_) / 128;
    Shape shape{size_.batch, size_.heads,
                size_.heads, size_.length,
                blocks,      static_cast<int>(padded_),
                0.125f,      0.125f * static_cast<float>(M_LOG2E)};
    shape.team = size_.team;
    AtOnce plan;
    plan.rows = size_.rows, plan.team = size_.team, plan.tiles = query_tiles(size_.length);
    std::vector<int> added(static_cast<size_t>(plan.counters()), 0);
    std::vector<float4> sums(static_cast<size_t>(plan.values() / 4), float4{NAN, NAN, NAN, NAN});
    std::vector<float4> angles(turned_ ? static_cast<size_t>(plan.angles() / 4) : 0);
    std::vector<float> cos, sin;
    for (int t = 0; t < size_.length; ++t)
      for (int i = 0; i < 32; ++i) cos.push_back(std::cos(angle(t, i))), sin.push_back(std::sin(angle(t, i)));
    for (size_t i = 0; i < angles.size(); ++i)
      angles[i] = angles_of(cos.data(), sin.data(), size_.length, static_cast<int>(i / 256 * 16),
                            static_cast<int>(i % 32), static_cast<int>(i / 32 % 8));
    const auto grid = static_cast<unsigned>(size_.rows * size_.team);
    partial_.assign(normed_ ? grid * 3 * kDim : 0, NAN);
    const auto gain = [&](size_t i) { return reinterpret_cast<const bfloat*>(gain_.p) + i * kDim; };
    const HeadNorms norms{{gain(0), gain(1), gain(2)},
                          rho_.data(),
                          partial_.data(),
                          boxes(raw_, 2 * d, 0, 64),
                          boxes(raw_, 2 * d, d, 64)};
    const uint32_t norms_at = (at_once::kTurnsAt + plan.turns() + 15) / 16 * 16;
    const auto kernel = normed_ ? at_once::kernel<true> : at_once::kernel<false>;
    emulator::launch(
        grid, {at_once::kRoles, 1, 1}, normed_ ? norms_at + NormMemory::kBytes : at_once::kTurnsAt + plan.turns(),
        [&] {
          kernel(shape, maps, g_q, log_sums_.data(), dots_.data(), OrderedAngles{turned_ ? angles.data() : nullptr},
                 reinterpret_cast<float*>(sums.data()), added.data(), norms, norms_at);
        },
        grid);
  }

  AttentionSize size_;
  bool turned_, normed_;
  int padded_ = 0;
  size_t tokens_, heads_;
  Packed qkv_, g_, out_, raw_;
  Packed gain_{3 * kDim};
  std::vector<double> wanted_, normal_, g_gain_ = std::vector<double>(3 * kDim);
  std::vector<float> rho_, partial_;
  std::vector<float> log_sums_, dots_;
};

}  // namespace siamese::kernels
