// Norms inside the projection and attention's backward pass are tried once before they are taken.
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "ops/attention_norms.h"
#include "ops/attention_plain.h"
#include "ops/gemm_qkv_norm.h"
#include "ops/own_attention.h"
#include "ops/random.h"
#include "util/philox.h"

namespace siamese {

using at::Tensor;

double attention_norms_error(int64_t heads, at::Device device) {
  const at::NoGradGuard no_grad;
  constexpr int64_t dim = 64, length = 128, k = 64, enough = int64_t{1} << 24;  // values of a projection
  constexpr double eps = 1e-5;
  const int64_t row = 3 * heads * dim * length, rows = (enough + row - 1) / row;
  int64_t number = 0;
  auto random = [&](at::IntArrayRef size) {
    Tensor t = at::empty(size, at::TensorOptions().device(device).dtype(at::kFloat));
    truncated_normal_(t, 1.0, 3.0, {++number, heads, kTestSite, 0});
    return t.to(at::kBFloat16);
  };
  auto wide = [](const Tensor& t) { return t.to(at::kFloat); };
  auto by_heads = [&](const Tensor& t) { return t.view({rows, length, 3 * heads, dim}); };
  const Tensor x = random({rows * length, k}), w = random({3 * heads * dim, k}), g = random({rows, length, heads, dim});
  const Tensor angle = wide(random({length, dim / 2})), cos = angle.cos(), sin = angle.sin();
  double worst = 0;
  for (const bool alike : {false, true}) {
    if (alike && !lean_norms()) break;  // makes no difference
    Tensor gain[3], exact_gain[3];
    for (size_t i = 0; i < 3; ++i) {
      gain[i] = random({dim});
      if (alike) gain[i] = at::copysign(gain[i].abs().clamp(0.5, 2.0), gain[i]);
      exact_gain[i] = wide(gain[i]);
    }
    const QkvNormed got = gemm_qkv_norm(x, w, gain, cos, sin, eps, heads, heads, length, lean_norms());
    if (alike) got.raw.fill_(NAN);  // what is not to be needed; its memory may still hold the last round's, the same
    const auto [out, sums] = own_attention(by_heads(got.out), heads, heads);
    const auto [g_got, gains_got] =
        attention_norms_backward(g, by_heads(got.out), out, sums, false,
                                 {cos, sin, {gain[0], gain[1], gain[2]}, got.raw, got.rho, lean_norms()});

    const QkvNormed want = gemm_qkv_norm_apart(wide(x), wide(w), exact_gain, cos, sin, eps, heads, heads, length);
    const Heads seen = heads_of(by_heads(want.out), heads, heads);
    const Heads up = attention_plain_backward(wide(g), seen, attention_plain(seen).out);
    const auto [g_want, gains_want] = norms_backward_plain(at::cat({up.q, up.k, up.v}, 2), by_heads(want.out), cos, sin,
                                                           exact_gain, want.raw, want.rho, false);
    for (const auto& [a, b] :
         {std::pair(got.out, want.out), std::pair(g_got, g_want), std::pair(gains_got, gains_want)}) {
      const double error = ((wide(a) - b).norm() / b.norm()).item<double>();
      worst = std::max(worst, std::isfinite(error) ? error : 1e30);
    }
  }
  return worst;
}

namespace {

/// What speaks against them; "" if nothing does.
std::string objection(int64_t heads, at::Device device) {
  constexpr double most = 0.02;  // bf16's rounding, some of it twice
  static std::mutex mutex;       // autograd's threads
  static std::map<std::tuple<int, int64_t, bool>, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [found, first] = known.try_emplace({device.index(), heads, lean_norms()}, "their trial did not end");
  if (!first) return found->second;
  try {
    const double error = attention_norms_error(heads, device);
    found->second = error < most ? "" : c10::str("their error on an example is ", error);
  } catch (const c10::Error& e) {  // a kernel that cannot run here after all
    found->second = e.what_without_backtrace();
  }
  return found->second;
}

}  // namespace

bool attention_norms_right(int64_t heads, at::Device device) {
  const std::string why = objection(heads, device);
  if (why.empty() || !lean_norms()) return why.empty();
  TORCH_WARN("SIAMESE_LEAN_NORMS=1: other kernels are taken: ", why);
  set_lean_norms(false);
  return objection(heads, device).empty();
}

}  // namespace siamese
