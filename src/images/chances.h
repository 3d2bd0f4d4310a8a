// Random choices of augmentation, one after the other from one key.
#pragma once

#include <cmath>
#include <numbers>
#include <span>

#include "data/draws.h"

namespace siamese {

class Chances : public Draws {
 public:
  using Draws::Draws;

  /// In (0, 1).
  double uniform() { return uniform_open(word()); }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// exp of a uniform number: a ratio and its inverse are equally likely.
  double log_uniform(double low, double high) { return std::exp(uniform(std::log(low), std::log(high))); }
  bool coin(double probability) { return uniform() < probability; }

  /// Mean 0, deviation 1 (Box and Muller): √(-2·ln u)·cos(2πv).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  /// The same for many, in float: two words make two numbers, the cosine's and the sine's.
  void normals(std::span<float> out) {
    for (size_t i = 0; i < out.size(); i += 2) {
      const float radius = std::sqrt(-2 * std::log(uniform24(word()) + 0x1p-25f));
      const float angle = 2 * std::numbers::pi_v<float> * uniform24(word());
      out[i] = radius * std::cos(angle);
      if (i + 1 < out.size()) out[i + 1] = radius * std::sin(angle);
    }
  }

  /// x/(x + y) with x ~ Γ(a), y ~ Γ(b). In logarithms: for small a and b both underflow.
  double beta(double a, double b) {
    const double x = log_gamma(a), y = log_gamma(b);
    return 1 / (1 + std::exp(y - x));
  }

 private:
  /// ln of a draw from Γ(shape, 1). Marsaglia and Tsang (2000) for shape ≥ 1:
  ///
  ///   d = shape - 1/3,  v = (1 + z/√(9d))³,  accept d·v where v > 0 and ln u < z²/2 + d - d·v + d·ln v
  ///
  /// and below 1 by Γ(shape) = Γ(shape + 1)·u^(1/shape).
  double log_gamma(double shape) {
    if (shape < 1) {
      const double power = std::log(uniform()) / shape;
      return log_gamma(shape + 1) + power;
    }
    const double d = shape - 1.0 / 3;
    for (;;) {
      const double z = normal(), root = 1 + z / std::sqrt(9 * d);
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(uniform()) < z * z / 2 + d - d * v + d * std::log(v)) return std::log(d) + std::log(v);
    }
  }
};

}  // namespace siamese
