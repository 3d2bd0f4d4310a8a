// The stream step by tiles where z is N_x alone (`post`, `resi_dual`) and where r is normed (`sandwich`, `reordered`),
// without a GPU: held to their formulas in fp64, which start from the streams as they were rounded.
#include "kernels/cuda/step_tile_post.cuh"
#include "kernels/cuda/step_tile_sandwich.cuh"
#include "step_tile_case.h"

namespace siamese::kernels {
namespace {

using Numbers = std::vector<double>;

/// Rows of width d, normed one by one.
struct Hats {
  Numbers hat, rho;
  size_t d;
  bool layer;

  Hats(const Numbers& v, size_t width, bool with_mean, double eps)
      : hat(v), rho(v.size() / width), d(width), layer(with_mean) {
    for (size_t row = 0; row < rho.size(); ++row) {
      const double mean = layer ? of_row(row, [&](size_t i) { return v[i]; }) : 0;
      rho[row] = 1 / std::sqrt(of_row(row, [&](size_t i) { return (v[i] - mean) * (v[i] - mean); }) + eps);
      for (size_t i = row * d; i < (row + 1) * d; ++i) hat[i] = (v[i] - mean) * rho[row];
    }
  }
  /// Mean over a row.
  template <class F>
  double of_row(size_t row, const F& f) const {
    double sum = 0;
    for (size_t i = row * d; i < (row + 1) * d; ++i) sum += f(i);
    return sum / static_cast<double>(d);
  }
  /// From the gradient of γ·hat + β to that of what was normed.
  Numbers back(const Numbers& g, const Rows& gain) const {
    Numbers out(g.size());
    for (size_t row = 0; row < rho.size(); ++row) {
      const double along = of_row(row, [&](size_t i) { return hat[i] * gain[i % d] * g[i]; });
      const double level = layer ? of_row(row, [&](size_t i) { return gain[i % d] * g[i]; }) : 0;
      for (size_t i = row * d; i < (row + 1) * d; ++i)
        out[i] = rho[row] * (gain[i % d] * g[i] - along * hat[i] - level);
    }
    return out;
  }
};

struct Options {
  bool joined = false, drop = false, norm_y = false, end = false;  // end: no gradient but z's
};

template <Form form, bool layer, class C>
class NormedCase {
 public:
  static constexpr bool sandwich = form == Form::sandwich, dual = form == Form::dual;
  static constexpr float kA = 0.5f, kNext = 0.75f, kRho = 0.7f, kMean = 0.25f, kEps = 1e-5f;
  static constexpr unsigned kBlocks = 2;

  NormedCase(const Size& size, const Options& options) : size_(size), o_(options) {
    call_.types = StepTypes::bf16_bf16, call_.rows = size.rows, call_.d = call_.width = size.d;
    call_.layer = layer, call_.eps = kEps, call_.a = sandwich ? 1.f : kA, call_.stats = stats_.data();
    call_.norm_r = sandwich, call_.norm_x = !sandwich, call_.norm_y = o_.norm_y, call_.skip_y = dual;
    call_.gain_a = gain_a_.data(), call_.bias_a = layer ? bias_a_.data() : nullptr;
    if (o_.norm_y) call_.gain_y = gain_y_.data(), call_.bias_y = layer ? bias_y_.data() : nullptr;
    if (o_.drop) call_.row_scale = row_scale_.data(), call_.samples = 2;
  }
  void check() {
    forward();
    backward();
    sandwich ? compare_sandwich() : compare_post();
  }

 private:
  void launch(const Needs& needs, void (*kernel)(StepCuda, Plan), const StepCuda& p) {
    const unsigned threads = static_cast<unsigned>(size_.d / C::E), groups = static_cast<unsigned>(size_.groups);
    const Layout lie(needs, size_.d, static_cast<int>(threads), size_.groups, size_.stages, C::R);
    Plan plan;
    plan.stages = size_.stages, plan.parts = 1, plan.tiles = size_.rows / C::R;
    emulator::launch(kBlocks, {threads, groups, 1}, static_cast<size_t>(lie.bytes), [&] { kernel(p, plan); });
  }
  void forward() {
    StepCuda p = call_;
    p.r = r_.data(), p.z = z_.data();
    if (sandwich || dual) p.y = y_.data(), p.y_out = y_new_.data();
    if constexpr (sandwich) {
      launch(SandwichForward<layer>::needs(), sandwich_forward_kernel<layer, C>, p);
    } else {
      p.x = x_.data(), p.x_raw = x_tilde_.data(), p.stats_before = before_.data();
      p.gain_before = gain_before_.data(), p.bias_before = layer ? bias_before_.data() : nullptr;
      launch(PostForward<dual, layer>::needs(), post_forward_kernel<dual, layer, C>, p);
    }
  }
  void backward() {
    StepCuda p = call_;
    p.g_z = g_z_in_.data(), p.z_again = z_again_.data(), p.partial = partial_.data(), p.joined = o_.joined;
    p.g_r = o_.joined ? nullptr : g_r_.data(), p.a_next = o_.joined && !o_.end ? kNext : 0.f;
    if (sandwich || dual) p.y = y_new_.data(), p.g_y = g_y_.data(), p.g_y_out = o_.end ? nullptr : g_y_in_.data();
    if constexpr (sandwich) {
      p.r = r_.data();
      launch(SandwichBackward<layer>::needs(), sandwich_backward_kernel<layer, C>, p);
    } else {
      p.x = x_tilde_.data(), p.g_x = g_x_.data(), p.g_x_out = o_.end ? nullptr : g_x_in_.data();
      launch(PostBackward<dual, layer>::needs(), post_backward_kernel<dual, layer, C>, p);
    }
  }

  /// One rounding to bf16 and some noise.
  static void expect_near(double got, double want, double noise, const char* what, size_t i) {
    ASSERT_LE(std::abs(got - want), 0x1.02p-8 * std::abs(want) + noise) << what << ' ' << i << ": " << got;
  }
  bool failed() const { return ::testing::Test::HasFatalFailure(); }
  double scale_of(size_t i) const { return o_.drop ? row_scale_[i / (n_ / 2)] : 1; }
  Numbers gradient(const Rows& rows) const { return o_.end ? Numbers(n_) : rows.exact(); }
  /// Σ over rows of `of`, in column sum `column`.
  void compare_column(StepColumn column, const Numbers& of, const char* what) const {
    for (size_t c = 0; c < d_ && !failed(); ++c) {
      double got = 0, want = 0;
      for (unsigned b = 0; b < kBlocks; ++b)
        got += partial_[(b * (layer ? 6U : 3U) + static_cast<size_t>(column)) * d_ + c];
      for (size_t i = c; i < n_; i += d_) want += of[i];
      ASSERT_NEAR(got, want, 1e-4 * (1 + std::abs(want))) << what << ' ' << c;
    }
  }
  static Numbers product(const Numbers& a, const Numbers& b) {
    Numbers out = a;
    for (size_t i = 0; i < out.size(); ++i) out[i] *= b[i];
    return out;
  }
  double affine(double hat, const Rows& gain, const Rows& bias, size_t i) const {
    return gain[i % d_] * hat + (layer ? bias[i % d_] : 0);
  }

  void compare_post() {
    const Hats x(x_tilde_.exact(), d_, layer, kEps);
    Numbers g = gradient(g_x_in_), to_y = gradient(g_y_in_);
    for (size_t i = 0; i < n_; ++i) {
      if (o_.joined && !o_.end) to_y[i] -= kNext * g[i];
      g[i] += g_z_in_[i];
    }
    const Numbers g_x = x.back(g, gain_a_);
    for (size_t i = 0; i < n_ && !failed(); ++i) {
      const double w = scale_of(i) * r_[i], hat = (x_[i] - (layer ? kMean : 0)) * kRho;
      expect_near(x_tilde_[i], affine(hat, gain_before_, bias_before_, i) + kA * w, 1e-6, "x~", i);
      expect_near(z_[i], affine(x.hat[i], gain_a_, bias_a_, i), 2e-5, "z", i);
      expect_near(z_again_[i], affine(x.hat[i], gain_a_, bias_a_, i), 2e-5, "z again", i);
      expect_near(g_x_[i], g_x[i], 5e-5, "gradient of x", i);
      const double g_w = kA * g_x[i] + (dual ? to_y[i] : 0);
      if (!o_.joined) expect_near(g_r_[i], scale_of(i) * g_w, 1e-4, "gradient of r", i);
      if (!dual) continue;
      expect_near(y_new_[i], y_[i] + w, 1e-6, "y'", i);
      expect_near(g_y_[i], o_.joined ? g_w : to_y[i], 5e-5, "gradient of y", i);
    }
    compare_column(kStepGainA, product(g, x.hat), "gradient of the gain");
    if (layer) compare_column(kStepBiasA, g, "gradient of the bias");
  }
  void compare_sandwich() {
    const Hats r(r_.exact(), d_, layer, kEps), y(y_new_.exact(), d_, layer, kEps);
    const Numbers g_z = g_z_in_.exact(), through = o_.norm_y ? y.back(g_z, gain_y_) : g_z;
    Numbers g_y = gradient(g_y_in_), g_w(n_);
    for (size_t i = 0; i < n_; ++i) g_y[i] += through[i], g_w[i] = scale_of(i) * g_y[i];
    const Numbers g_r = r.back(g_w, gain_a_);
    for (size_t i = 0; i < n_ && !failed(); ++i) {
      const double z = o_.norm_y ? affine(y.hat[i], gain_y_, bias_y_, i) : y_new_[i];
      expect_near(y_new_[i], y_[i] + scale_of(i) * affine(r.hat[i], gain_a_, bias_a_, i), 5e-6, "y'", i);
      expect_near(z_[i], z, 2e-5, "z", i);
      expect_near(z_again_[i], z, 2e-5, "z again", i);
      expect_near(g_y_[i], g_y[i], 5e-5, "gradient of y", i);
      expect_near(g_r_[i], g_r[i], 1e-4, "gradient of r", i);
    }
    compare_column(kStepGainA, product(g_w, r.hat), "gradient of the gain on r");
    if (layer) compare_column(kStepBiasA, g_w, "gradient of the bias on r");
    if (o_.norm_y) compare_column(kStepGainY, product(g_z, y.hat), "gradient of the gain on y");
    if (o_.norm_y && layer) compare_column(kStepBiasY, g_z, "gradient of the bias on y");
  }

  Size size_;
  Options o_;
  size_t d_ = static_cast<size_t>(size_.d), n_ = d_ * static_cast<size_t>(size_.rows);
  StepCuda call_;
  std::mt19937 random_{20260202};
  Rows x_{n_, random_, 0.3f, 1.5f}, y_{n_, random_, -0.2f, 1.2f}, r_{n_, random_, 0.1f, 1.f};
  Rows g_z_in_{n_, random_, 0.f, 1.f}, g_x_in_{n_, random_, 0.1f, 1.f}, g_y_in_{n_, random_, 0.f, 1.f};
  Rows gain_a_{d_, random_, 1.f, 0.2f}, gain_y_{d_, random_, 1.f, 0.2f}, gain_before_{d_, random_, 1.f, 0.2f};
  Rows bias_a_{d_, random_, 0.f, 0.3f}, bias_y_{d_, random_, 0.f, 0.3f}, bias_before_{d_, random_, 0.f, 0.3f};
  Rows x_tilde_{n_}, y_new_{n_}, z_{n_}, z_again_{n_}, g_x_{n_}, g_y_{n_}, g_r_{n_};
  std::vector<float> row_scale_{1.25f, 0.f};
  std::vector<float> stats_ = std::vector<float>(6 * static_cast<size_t>(size_.rows));
  std::vector<float> partial_ = std::vector<float>(kBlocks * 6 * d_, NAN);
  std::vector<float> before_ = [this] {
    std::vector<float> v(6 * static_cast<size_t>(size_.rows), kRho);
    std::fill(v.begin() + 3 * size_.rows, v.end(), kMean);
    return v;
  }();
};

template <Form form, bool layer, class C>
void check(const Size& size) {
  constexpr bool sandwich = form == Form::sandwich;
  for (const bool other : {false, true})  // joined; N_y
    for (const bool drop : {false, true})
      for (const bool end : {false, true}) {
        if (other && (form == Form::post || (form == Form::dual && drop))) continue;
        SCOPED_TRACE(::testing::Message() << "form " << static_cast<int>(form) << (layer ? ", layer, " : ", rms, ")
                                          << size.rows << " rows of " << size.d << ", " << size.groups << " groups, E "
                                          << C::E << ", R " << C::R << (other ? sandwich ? ", N_y" : ", joined" : "")
                                          << (drop ? ", DropPath" : "") << (end ? ", end" : ""));
        NormedCase<form, layer, C>(size, {!sandwich && other, drop, sandwich && other, end}).check();
        if (::testing::Test::HasFatalFailure()) return;
      }
}
/// Groups without a tile; rings that go round; rows of one warp and of several.
template <Form form>
void check_all() {
  check<form, true, Config<4, 1, 2, true, 640, 2>>({384, 20, 2, 2});
  check<form, true, Config<8, 1, 1, false, 384, 2>>({768, 22, 3, 2});
  check<form, true, Config<4, 3, 2, false, 512, 2, true>>({384, 28, 5, 2});
  check<form, false, Config<4, 1, 2, true, 512, 2>>({1024, 12, 2, 2});
  check<form, false, Config<8, 1, 1, true, 640, 4>>({1024, 10, 2, 3});
  check<form, false, Config<8, 1, 1, false, 512, 2>>({2048, 2, 2, 2});
}

TEST(EmulatedStepTiles, Post) { check_all<Form::post>(); }
TEST(EmulatedStepTiles, ResiDual) { check_all<Form::dual>(); }
TEST(EmulatedStepTiles, SandwichAndReordered) { check_all<Form::sandwich>(); }

}  // namespace
}  // namespace siamese::kernels
