// One call of the stream step by tiles in the emulator, forward and backward, and what it is held to: the CPU's kernels
// in fp64, which start from the streams as they were rounded.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "emulator.h"
#include "kernels/cuda/step_tile_backward.cuh"
#include "kernels/cuda/step_tile_forward.cuh"
#include "kernels/stream_step.h"
#include "packed.h"

namespace siamese::kernels {

using namespace tile;

/// Numbers that were drawn, or NaN.
class Rows : public Packed {
 public:
  explicit Rows(size_t n) : Packed(n), n_(n) {}
  Rows(size_t n, std::mt19937& random, float mean, float deviation) : Rows(n) {
    std::normal_distribution<float> draw(mean, deviation);
    for (size_t i = 0; i < n; ++i) set(i, draw(random));
  }
  void* data() { return p; }
  std::vector<double> exact() const {
    std::vector<double> v(n_);
    for (size_t i = 0; i < n_; ++i) v[i] = (*this)[i];
    return v;
  }

 private:
  size_t n_;
};

struct Size {
  int d, rows, groups, stages, samples = 1;
  float mean = -0.2f, deviation = 1.2f;  // of y
  float update = 1.f;                    // deviation of r
};

/// `adaln`: gate, scale and shift of a sample; the last norm has no gain of its own.
template <Form form, bool layer, class C, bool adaln = false>
class Case {
 public:
  static constexpr bool two = form != Form::pre, whole = form == Form::whole;
  static constexpr float kA = 0.5f, kNext = 0.75f, kRho = 0.7f, kMean = 0.25f;
  static constexpr unsigned kBlocks = 2;

  Case(const Size& size, bool joined)
      : size_(size), joined_(joined && two), d_(static_cast<size_t>(size.d)), n_(d_ * static_cast<size_t>(size.rows)) {
    call_.types = StepTypes::bf16_bf16;
    call_.rows = size.rows, call_.d = call_.width = size.d, call_.layer = layer, call_.norm_x = whole;
    call_.norm_y = true, call_.norm_in = whole, call_.eps = 1e-5f, call_.a = kA;
    call_.gain_a = gain_a_.data(), call_.gain_y = gain_y_.data(), call_.gain_in = gain_in_.data();
    call_.c1 = gain_a_.data(), call_.stats = stats_.data();
    if (layer) call_.bias_a = bias_a_.data(), call_.bias_y = bias_y_.data(), call_.bias_in = bias_in_.data();
    if (!adaln) return;
    call_.gate = gate_.data(), call_.scale = scale_.data(), call_.shift = shift_.data();
    call_.samples = size.samples, call_.sample_stride = size.d;
    (whole ? call_.gain_in : call_.gain_y) = (whole ? call_.bias_in : call_.bias_y) = nullptr;
  }

  /// For rows that leave nothing to compare.
  void check_finite() {
    forward();
    backward();
    for (size_t i = 0; i < n_ && !::testing::Test::HasFatalFailure(); ++i)
      for (const Rows* rows : {&z_, &z_again_, &g_y_}) ASSERT_TRUE(std::isfinite((*rows)[i])) << i;
    for (const float s : stats_) ASSERT_TRUE(std::isfinite(s));
  }
  void check() {
    forward();
    backward();
    const std::vector<double> columns = compare_rows();
    compare_columns(columns);
  }

 private:
  template <class Config, class Needed, class Kernel>
  void launch(const Needed& needs, const Kernel& kernel) {
    const unsigned threads = static_cast<unsigned>(size_.d / Config::E), groups = static_cast<unsigned>(size_.groups);
    const Layout lie(needs, size_.d, static_cast<int>(threads), size_.groups, size_.stages, Config::R);
    Plan plan;
    plan.stages = size_.stages, plan.parts = 1, plan.tiles = size_.rows / size_.samples / Config::R;
    emulator::launch(kBlocks, {threads, groups, 1}, static_cast<size_t>(lie.bytes), [&] { kernel(plan); });
  }

  /// LayerNorm's forward pass has rows of one warp alone.
  void forward() {
    if constexpr (layer && !C::warp) {
      if (size_.d == 384) return forward_by<Config<4, 3, 1, false, 512, 2, true>>();
      return forward_by<Config<8, 3, 1, false, 512, 2, true>>();
    } else {
      forward_by<C>();
    }
  }
  template <class Config>
  void forward_by() {
    StepCuda p = call_;
    p.y = y_.data(), p.r = r_.data(), p.y_out = y_new_.data(), p.z = z_.data();
    if (two) {
      p.x = x_.data(), p.x_raw = x_tilde_.data(), p.stats_before = before_.data();
      p.gain_before = gain_before_.data(), p.bias_before = layer ? bias_before_.data() : nullptr;
    }
    launch<Config>(Forward<form, layer, adaln>::needs(),
                   [&](const Plan& plan) { forward_kernel<form, layer, adaln, Config>(p, plan); });
  }
  void backward() {
    StepCuda p = call_;
    p.y = y_new_.data(), p.g_z = g_z_in_.data(), p.g_y_out = g_y_in_.data(), p.g_y = g_y_.data();
    p.z_again = z_again_.data(), p.partial = partial_.data(), p.joined = joined_;
    if (two) p.x = x_tilde_.data(), p.g_x_out = g_x_in_.data(), p.g_x = g_x_.data();
    if (joined_) p.a_next = whole ? kNext : 0.f;
    if (adaln) p.r = r_.data();
    if (adaln || (two && !joined_)) p.g_r = g_r_.data();
    launch<C>(Backward<form, layer, adaln>::needs(),
              [&](const Plan& plan) { backward_kernel<form, layer, adaln, C>(p, plan); });
  }

  /// One rounding to bf16 and some noise.
  void expect_near(double got, double want, double noise, const char* what) const {
    ASSERT_LE(std::abs(got - want), (0x1.02p-8 + far()) * std::abs(want) + noise)
        << what << ": " << got << " for " << want;
  }
  /// What the variance of a row far from 0 may be off by: of fp32's 2⁻²⁴, times the square of mean over deviation.
  double far() const { return 16 * 0x1p-24 * std::pow(size_.mean / size_.deviation, 2); }

  /// Everything that has a row; returns the column sums of the reference.
  std::vector<double> compare_rows() {
    StreamStep<double, double> p;
    const auto y = y_new_.exact(), x = x_tilde_.exact(), ga = gain_a_.exact(), gy = gain_y_.exact(),
               gin = gain_in_.exact();
    const auto ba = bias_a_.exact(), by = bias_y_.exact(), bin = bias_in_.exact(), g_x = g_x_in_.exact();
    std::vector<double> g_z = g_z_in_.exact(), to_y = g_y_in_.exact(), z(n_), x_out(n_), got_x(n_), got_y(n_),
                        scratch(8 * d_), columns(kColumns * d_);
    if (joined_ && whole)
      for (size_t i = 0; i < n_; ++i) to_y[i] -= kNext * g_x[i];
    for (size_t i = 0; i < n_; ++i) g_z[i] *= 1 + of_sample(scale_, i);
    p.d = size_.d, p.layer = layer, p.norm_x = whole, p.norm_y = true, p.norm_in = whole, p.eps = call_.eps, p.a = kA;
    p.y = y.data(), p.gain_y = gy.data(), p.z = z.data(), p.g_z = g_z.data(), p.g_y_out = to_y.data(),
    p.g_y = got_y.data();
    if (layer) p.bias_y = by.data();
    if (two) p.x = x.data(), p.x_out = x_out.data(), p.g_x_out = g_x.data(), p.g_x = got_x.data();
    if (whole)
      p.gain_x = ga.data(), p.gain_in = gin.data(), p.bias_x = layer ? ba.data() : nullptr,
      p.bias_in = layer ? bin.data() : nullptr;
    if (two && !whole) p.c1 = ga.data();
    if (adaln) (whole ? p.gain_in : p.gain_y) = (whole ? p.bias_in : p.bias_y) = nullptr;
    stream_step_forward(p, 0, size_.rows, scratch.data());
    stream_step_backward(p, 0, size_.rows, scratch.data(), columns.data());
    for (size_t i = 0; i < n_ && !::testing::Test::HasFatalFailure(); ++i) {
      const size_t c = i % d_;
      const double gate = adaln ? of_sample(gate_, i) : 1, w = gate * r_[i],
                   modulated = z[i] * (1 + of_sample(scale_, i)) + of_sample(shift_, i);
      const double x0 =
          layer ? (x_[i] - kMean) * kRho * gain_before_[c] + bias_before_[c] : x_[i] * kRho * gain_before_[c];
      expect_near(y_new_[i], y_[i] + w, 1e-6, "y'");
      if (two) expect_near(x_tilde_[i], x0 + kA * w, 1e-6, "x~");
      expect_near(z_[i], modulated, 2e-5, "z");
      expect_near(z_again_[i], modulated, 2e-5, "z again");
      const double to_r = got_y[i] + kA * got_x[i];
      expect_near(g_y_[i], joined_ ? to_r : got_y[i], 5e-5, "gradient of y");
      if (two) expect_near(g_x_[i], got_x[i], 5e-5, "gradient of x");
      if (adaln || (two && !joined_)) expect_near(g_r_[i], gate * to_r, 1e-4, "gradient of r");
      if (!adaln) continue;
      double* const sums = &by_sample_[sample_of(i) * 3 * d_ + c];
      sums[kStepScale * d_] += g_z_in_[i] * z[i], sums[kStepShift * d_] += g_z_in_[i],
          sums[kStepGate * d_] += to_r * r_[i];
    }
    return columns;
  }
  size_t sample_of(size_t i) const { return i / (n_ / static_cast<size_t>(size_.samples)); }
  /// What belongs to value i of all rows; 0 without adaLN.
  double of_sample(const Rows& of, size_t i) const { return adaln ? of[sample_of(i) * d_ + i % d_] : 0; }

  void compare_columns(const std::vector<double>& want) {
    using B = Backward<form, layer, adaln>;
    constexpr int kOf[] = {whole ? kGainX : kC1, kGainY, kGainIn, kBiasX, kBiasY, kBiasIn};  // by StepColumn
    for (int c = 0; c < B::columns; ++c)
      for (size_t i = 0; B::column(c) >= 0 && i < d_ && !::testing::Test::HasFatalFailure(); ++i) {
        double sum = 0;
        for (unsigned b = 0; b < kBlocks; ++b)
          sum += partial_[(b * (layer ? 6U : 3U) + static_cast<size_t>(B::column(c))) * d_ + i];
        const double exact = want[static_cast<size_t>(kOf[B::column(c)]) * d_ + i];
        ASSERT_NEAR(sum, exact, (1e-4 + far()) * (1 + std::abs(exact))) << "column sum " << c << " of column " << i;
      }
    for (size_t i = 0; adaln && i < by_sample_.size() && !::testing::Test::HasFatalFailure(); ++i)
      ASSERT_NEAR(partial_[kBlocks * 6 * d_ + i], by_sample_[i], 1e-4 * (1 + std::abs(by_sample_[i])))
          << "sum " << i / d_ % 3 << " of sample " << i / d_ / 3;
  }

  Size size_;
  bool joined_;
  size_t d_, n_;
  StepCuda call_;
  std::mt19937 random_{20260101};
  Rows x_{n_, random_, 0.3f, 1.5f}, y_{n_, random_, size_.mean, size_.deviation}, r_{n_, random_, 0.f, size_.update};
  Rows g_z_in_{n_, random_, 0.f, 1.f}, g_x_in_{n_, random_, 0.1f, 1.f}, g_y_in_{n_, random_, 0.f, 1.f};
  Rows gain_a_{d_, random_, 1.f, 0.2f}, gain_y_{d_, random_, 1.f, 0.2f}, gain_in_{d_, random_, 1.f, 0.2f};
  Rows gain_before_{d_, random_, 1.f, 0.2f}, bias_before_{d_, random_, 0.f, 0.3f};
  Rows bias_a_{d_, random_, 0.f, 0.3f}, bias_y_{d_, random_, 0.f, 0.3f}, bias_in_{d_, random_, 0.f, 0.3f};
  Rows x_tilde_{n_}, y_new_{n_}, z_{n_}, z_again_{n_}, g_x_{n_}, g_y_{n_}, g_r_{n_};
  std::vector<float> stats_ = std::vector<float>(6 * static_cast<size_t>(size_.rows));
  size_t vectors_ = static_cast<size_t>(size_.samples) * d_;
  Rows gate_{vectors_, random_, 0.2f, 0.5f}, scale_{vectors_, random_, 0.1f, 0.5f},
      shift_{vectors_, random_, 0.f, 0.5f};
  std::vector<double> by_sample_ = std::vector<double>(3 * vectors_);
  std::vector<float> partial_ = std::vector<float>(kBlocks * 6 * d_ + 3 * vectors_, NAN);
  std::vector<float> before_ = [this] {
    const size_t rows = static_cast<size_t>(size_.rows);
    std::vector<float> v(6 * rows, kRho);
    for (size_t i = 0; i < rows; ++i) v[3 * rows + i] = kMean;
    return v;
  }();
};

}  // namespace siamese::kernels
