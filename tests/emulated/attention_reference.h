// Attention by its formulas in fp64, on numbers that bf16 can say: what the kernels in the emulator are held to.
#pragma once

#include <algorithm>
#include <random>

#include "emulator.h"
#include "kernels/cuda/head_gain.cuh"
#include "packed.h"

namespace siamese::kernels {

struct AttentionSize {
  int batch, heads, kv_heads, length;
  bool causal = true;
};
/// As they came, turned by their positions, or normed and turned. Gains of v, and of all three where just `normed`, are
/// such that some are 0 and next to it; other gains of q and k are alike, but for one pair of k's where `almost`.
enum class Heads { plain, turned, normed, alike, almost };

/// q, k and v side by side, [batch, length, heads + 2 kv heads, 64], and the gradient of attention's output.
class AttentionReference {
 public:
  static constexpr size_t kDim = 64;

  AttentionReference(const AttentionSize& size, Heads heads)
      : s_(size),
        turned_(heads != Heads::plain),
        normed_(heads == Heads::normed || heads == Heads::alike || heads == Heads::almost),
        heads_(heads),
        padded_((size.length + 127) / 128 * 128),
        tokens_(static_cast<size_t>(size.batch * size.length)),
        wide_(static_cast<size_t>(size.heads + 2 * size.kv_heads) * kDim),
        qkv_(tokens_ * wide_),
        g_(tokens_ * narrow()),
        raw_(tokens_ * 2 * narrow()),
        wanted_(tokens_ * wide_),
        wanted_out_(tokens_ * narrow()) {
    std::mt19937 random(static_cast<unsigned>(7 + size.length));
    std::normal_distribution<double> draw(0, 1);
    for (size_t i = 0; i < tokens_ * wide_; ++i) qkv_.set(i, draw(random));
    for (size_t i = 0; i < tokens_ * narrow(); ++i) g_.set(i, draw(random));
    if (normed_) norm(random);
    wanted_sums_.assign(static_cast<size_t>(size.batch * size.heads) * padded_, INFINITY);
    dots_.assign(wanted_sums_.size(), 0.f);
    for (int b = 0; b < size.batch; ++b)
      for (int h = 0; h < size.heads; ++h) differentiate(b, static_cast<size_t>(h));
    if (turned_) turn_back();
    if (normed_) through_norms();
    for (int t = 0; t < size.length; ++t)
      for (int i = 0; i < 32; ++i) cos_.push_back(std::cos(angle(t, i))), sin_.push_back(std::sin(angle(t, i)));
  }

 protected:
  size_t narrow() const { return static_cast<size_t>(s_.heads) * kDim; }
  /// Heads of q, k or v.
  size_t heads(size_t kind) const { return static_cast<size_t>(kind == 0 ? s_.heads : s_.kv_heads); }
  size_t first(size_t kind) const { return kind == 0 ? 0 : heads(0) + (kind - 1) * heads(1); }
  size_t place(size_t token, size_t kind, size_t head) const { return token * wide_ + (first(kind) + head) * kDim; }
  size_t token(int b, size_t t) const { return static_cast<size_t>(b * s_.length) + t; }
  template <class F>
  void each_row(const F& f) const {
    for (size_t t = 0; t < tokens_; ++t)
      for (size_t kind = 0; kind < 3; ++kind)
        for (size_t h = 0; h < heads(kind); ++h) f(t, kind, h, place(t, kind, h));
  }
  size_t rho_at(size_t t, size_t kind, size_t h) const { return (first(kind) + h) * tokens_ + t; }

  float angle(int t, int i) const { return static_cast<float>(t) * std::pow(10000.f, -static_cast<float>(i) / 32.f); }
  void turn(double* g, size_t token, double sign) const {
    const int t = static_cast<int>(token) % s_.length;
    for (int i = 0; i < 32; ++i) {
      const double a = g[i], b = g[i + 32], c = std::cos(angle(t, i)), s = sign * std::sin(angle(t, i));
      g[i] = a * c - b * s, g[i + 32] = b * c + a * s;
    }
  }
  void turn_back() {
    each_row([&](size_t t, size_t kind, size_t, size_t at) {
      if (kind < 2) turn(&wanted_[at], t, -1);
    });
  }

  double draw_gain(size_t kind, size_t column, std::mt19937& random) const {
    const double drawn = std::normal_distribution<double>(1, 0.3)(random);
    if (kind == 2 || heads_ == Heads::normed) return column == 5 ? 0 : column == 40 ? -1e-3 : drawn;
    const double most = heads_ == Heads::almost && kind == 1 ? 2.0625 : 2;
    return column == 5 ? 0.5 : column == 37 ? -most : std::clamp(drawn, 0.5, 2.0);
  }
  /// What is there becomes x, and y = R(γ·ρ·x) takes its place.
  void norm(std::mt19937& random) {
    for (size_t i = 0; i < 3 * kDim; ++i) gain_.set(i, draw_gain(i / kDim, i % kDim, random));
    normal_.resize(wanted_.size());
    rho_.resize(3 * heads(0) * tokens_);
    each_row([&](size_t t, size_t kind, size_t h, size_t at) {
      double squares = 0, y[kDim];
      for (size_t i = 0; i < kDim; ++i) {
        squares += std::pow(qkv_[at + i], 2);
        if (kind < 2) raw_.p[((t * 2 + kind) * heads(0) + h) * kDim + i] = qkv_.p[at + i];
      }
      const double rho = 1 / std::sqrt(squares / kDim + 1e-5);
      rho_[rho_at(t, kind, h)] = static_cast<float>(rho);
      for (size_t i = 0; i < kDim; ++i) {
        normal_[at + i] = rho * qkv_[at + i];
        y[i] = normal_[at + i] * head_gain(bfloat{gain_.p[kind * kDim + i]});
      }
      if (kind < 2) turn(y, t, 1);
      for (size_t i = 0; i < kDim; ++i) qkv_.set(at + i, y[i]);
    });
  }
  /// Wanted gradients of y become those of x.
  void through_norms() {
    each_row([&](size_t t, size_t kind, size_t h, size_t at) {
      double* const g = &wanted_[at];
      double mean = 0;
      for (size_t i = 0; i < kDim; ++i) {
        g_gain_[kind * kDim + i] += g[i] * normal_[at + i];
        g[i] *= gain_[kind * kDim + i];
        mean += g[i] * normal_[at + i] / kDim;
      }
      for (size_t i = 0; i < kDim; ++i) g[i] = rho_[rho_at(t, kind, h)] * (g[i] - mean * normal_[at + i]);
    });
  }

  /// A head's output, sums and wanted gradients.
  void differentiate(int b, size_t h) {
    const auto n = static_cast<size_t>(s_.length), kv = h / (heads(0) / heads(1));
    auto row = [&](size_t t, size_t kind) { return place(token(b, t), kind, kind == 0 ? h : kv); };
    auto dot = [&](const Packed& x, size_t i, const Packed& y, size_t j) {
      double sum = 0;
      for (size_t c = 0; c < kDim; ++c) sum += x[i + c] * y[j + c];
      return sum;
    };
    for (size_t t = 0; t < n; ++t) {
      const size_t g_at = token(b, t) * narrow() + h * kDim, keys = s_.causal ? t + 1 : n;
      std::vector<double> p(keys);
      double total = 0, d = 0;
      for (size_t j = 0; j < keys; ++j) total += p[j] = std::exp(dot(qkv_, row(t, 0), qkv_, row(j, 1)) / 8);
      for (size_t c = 0; c < kDim; ++c) {
        double& o = wanted_out_[g_at + c];
        for (size_t j = 0; j < keys; ++j) o += p[j] / total * qkv_[row(j, 2) + c];
        d += o * g_[g_at + c];
      }
      const size_t number = (static_cast<size_t>(b) * heads(0) + h) * padded_ + t;
      wanted_sums_[number] = static_cast<float>(std::log2(total)), dots_[number] = static_cast<float>(d);
      for (size_t j = 0; j < keys; ++j) {
        p[j] /= total;
        const double ds = p[j] * (dot(g_, g_at, qkv_, row(j, 2)) - d) / 8;
        for (size_t c = 0; c < kDim; ++c) {
          wanted_[row(j, 2) + c] += p[j] * g_[g_at + c];
          wanted_[row(t, 0) + c] += ds * qkv_[row(j, 1) + c];
          wanted_[row(j, 1) + c] += ds * qkv_[row(t, 0) + c];
        }
      }
    }
  }

  AttentionSize s_;
  bool turned_, normed_;
  Heads heads_;
  size_t padded_, tokens_, wide_;
  Packed qkv_, g_, raw_, gain_{3 * kDim};
  std::vector<double> wanted_, wanted_out_, normal_, g_gain_ = std::vector<double>(3 * kDim);
  std::vector<float> wanted_sums_, dots_, cos_, sin_, rho_;
};

}  // namespace siamese::kernels
