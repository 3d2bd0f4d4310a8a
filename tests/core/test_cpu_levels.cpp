// The stream step is compiled once per instruction set and one is picked at run time: here every one that this machine
// can run, so that the slower ones are tested too.
#include "gradcheck.h"
#include "kernels/cpu_level.h"
#include "kernels/stream_step.h"
#include "op_cases.h"

namespace siamese {

// As in kernels/stream_step.cpp: no header declares them, because nobody else may pick one.
namespace kernels {
#define SIAMESE_DECLARE(level)                                      \
  namespace level {                                                 \
  template <class S, class Z, class C>                              \
  void forward(const StreamStep<S, Z>&, int64_t, int64_t, C*);      \
  template <class S, class Z, class C>                              \
  void backward(const StreamStep<S, Z>&, int64_t, int64_t, C*, C*); \
  }
SIAMESE_DECLARE(base)
SIAMESE_DECLARE(v3)
SIAMESE_DECLARE(v4)
}  // namespace kernels

namespace {

using kernels::CpuLevel;

/// siamese's step with everything on, [rows, d], run at one level; its results one after the other.
std::vector<double> run(CpuLevel level, int64_t rows, int64_t d, bool layer) {
  const size_t n = static_cast<size_t>(rows * d);
  auto draw = [&](int64_t number, int64_t count) {
    const at::Tensor t = random_normal({count}, number);
    return std::vector<double>(t.const_data_ptr<double>(), t.const_data_ptr<double>() + count);
  };
  const auto x = draw(1, rows * d), y = draw(2, rows * d), r = draw(3, rows * d), gains = draw(4, 6 * d);
  const auto g_z = draw(5, rows * d), g_x_out = draw(6, rows * d), g_y_out = draw(7, rows * d);
  std::vector<double> out(6 * n + static_cast<size_t>(kernels::kColumns * d)), scratch(static_cast<size_t>(8 * d));
  auto part = [&](size_t i) { return out.data() + i * n; };
  kernels::StreamStep<double, double> p;
  p.d = d, p.layer = layer, p.eps = 1e-5, p.a = 0.5;
  p.norm_x = p.norm_y = p.norm_in = true;
  p.x = x.data(), p.y = y.data(), p.r = r.data();
  p.gain_x = gains.data(), p.bias_x = p.gain_x + d, p.gain_y = p.bias_x + d;
  p.bias_y = p.gain_y + d, p.gain_in = p.bias_y + d, p.bias_in = p.gain_in + d;
  p.z = part(0), p.x_out = part(1), p.y_out = part(2);
  p.g_z = g_z.data(), p.g_x_out = g_x_out.data(), p.g_y_out = g_y_out.data();
  p.g_x = part(3), p.g_y = part(4), p.g_r = part(5);
  switch (level) {
    case CpuLevel::base:
      kernels::base::forward(p, 0, rows, scratch.data());
      kernels::base::backward(p, 0, rows, scratch.data(), part(6));
      break;
    case CpuLevel::v3:
      kernels::v3::forward(p, 0, rows, scratch.data());
      kernels::v3::backward(p, 0, rows, scratch.data(), part(6));
      break;
    case CpuLevel::v4:
      kernels::v4::forward(p, 0, rows, scratch.data());
      kernels::v4::backward(p, 0, rows, scratch.data(), part(6));
      break;
  }
  return out;
}

TEST(CpuLevels, Agree) {
  for (const bool layer : {false, true})
    for (const int64_t d : {1, 3, 17, 64, 257}) {
      const std::vector<double> base = run(CpuLevel::base, 5, d, layer);
      for (const CpuLevel level : {CpuLevel::v3, CpuLevel::v4}) {
        if (kernels::cpu_level() < level) continue;
        const std::vector<double> other = run(level, 5, d, layer);
        double scale = 1, worst = 0;
        for (const double v : base) scale = std::max(scale, std::abs(v));
        for (size_t i = 0; i < base.size(); ++i) worst = std::max(worst, std::abs(base[i] - other[i]));
        EXPECT_LE(worst, 1e-12 * scale) << d;
      }
    }
}

}  // namespace
}  // namespace siamese
