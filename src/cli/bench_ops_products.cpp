// What surrounds the residual steps in `siamese bench --ops`: products with epilogues, attention by itself, the
// gradient of a bias, dropout. Products are bound by arithmetic: what counts there is the time, not the share of a
// copy's speed.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "cli/bench_ops.h"
#include "ops/column_sums.h"
#include "ops/gemm.h"
#include "ops/gemm_qkv_rope.h"
#include "ops/gemm_swiglu.h"
#include "ops/own_attention.h"
#include "ops/random.h"

namespace siamese::cli {
namespace {

using at::Tensor;

constexpr int64_t kDim = 64;

/// Attention's projections without norms, by themselves and with rotary positions inside.
void bench_projection(OpTimer& timer, int64_t batch, int64_t length, int64_t heads, int64_t kv_heads) {
  const bool alone = timer.wants("gemm"), turned = timer.wants("gemm_qkv_rope");
  if (!alone && !turned) return;
  const int64_t k = heads * kDim, tokens = batch * length, columns = (heads + 2 * kv_heads) * kDim;
  const auto x = noise_sets(timer, {tokens, k}), g = noise_sets(timer, {tokens, columns});
  const Tensor w = noise_sets(timer, {columns, k})[0];
  const Tensor angle = at::randn({length, kDim / 2}, w.options().dtype(at::kFloat)), cos = at::cos(angle),
               sin = at::sin(angle);
  const std::string size = fmt::format("{} x {} x {}", tokens, columns, k);
  const int64_t bytes = bytes_of_rows({x[0]}) + bytes_of_rows({g[0]}) + bytes_of_rows({w});
  if (alone) {
    timer.row("gemm", size, "forward", bytes, [&](int i) { gemm(x[static_cast<size_t>(i)], w, false, true); });
    timer.row("gemm", size, "of input", bytes, [&](int i) { gemm(g[static_cast<size_t>(i)], w, false, false); });
    timer.row("gemm", size, "of weight", bytes,
              [&](int i) { gemm(g[static_cast<size_t>(i)], x[static_cast<size_t>(i)], true, false); });
  }
  if (turned)
    timer.row("gemm_qkv_rope", size, "forward", bytes,
              [&](int i) { gemm_qkv_rope(x[static_cast<size_t>(i)], w, cos, sin, heads, kv_heads, length); });
}

void bench_swiglu(OpTimer& timer, int64_t tokens, int64_t d, int64_t hidden) {
  if (!timer.wants("gemm_swiglu")) return;
  const auto x = noise_sets(timer, {tokens, d}), p = noise_sets(timer, {tokens, 2 * hidden});
  const Tensor up = noise_sets(timer, {2 * hidden, d})[0], down = noise_sets(timer, {d, hidden})[0];
  const std::string size = fmt::format("{} x {} x {}", tokens, 2 * hidden, d);
  const int64_t in = bytes_of_rows({x[0]}), wide = bytes_of_rows({p[0]});
  timer.row("gemm_swiglu", size, "forward", in + bytes_of_rows({up}) + wide + wide / 2,
            [&](int i) { gemm_swiglu(x[static_cast<size_t>(i)], up); });
  timer.row("gemm_swiglu", size, "backward", in + bytes_of_rows({down}) + 2 * wide + wide / 2,
            [&](int i) { gemm_swiglu_backward(x[static_cast<size_t>(i)], down, p[static_cast<size_t>(i)]); });
}

void bench_attention(OpTimer& timer, int64_t batch, int64_t length, int64_t heads, int64_t kv_heads) {
  if (!timer.wants("attention") || !own_attention_fits(kDim, timer.device)) return;
  const auto qkv = noise_sets(timer, {batch, length, heads + 2 * kv_heads, kDim}),
             g = noise_sets(timer, {batch, length, heads, kDim});
  const auto [out, sums] = own_attention(qkv[0], heads, kv_heads);
  const std::string size = fmt::format("{} x {}, {} heads, {} of keys", batch, length, heads, kv_heads);
  const int64_t packed = bytes_of_rows({qkv[0]}), rows = bytes_of_rows({g[0]});
  timer.row("attention", size, "forward", packed + rows,
            [&](int i) { own_attention(qkv[static_cast<size_t>(i)], heads, kv_heads); });
  timer.row("attention", size, "backward", 2 * packed + 2 * rows, [&, out = out, sums = sums](int i) {
    own_attention_backward(g[static_cast<size_t>(i)], qkv[0], out, sums, false, {}, {}, heads, kv_heads);
  });
}

}  // namespace

void bench_products(OpTimer& timer) {
  bench_projection(timer, 16, 2048, 16, 16);
  bench_projection(timer, 4, 4096, 32, 8);
  bench_swiglu(timer, 32768, 1024, 2816);
  bench_swiglu(timer, 16384, 2048, 8192);
  bench_attention(timer, 16, 2048, 16, 16);
  bench_attention(timer, 4, 4096, 32, 8);
}

void bench_columns_and_dropout(OpTimer& timer) {
  const bool sums = timer.wants("column_sums"), drops = timer.wants("dropout");
  if (!sums && !drops) return;
  const auto t = noise_sets(timer, {32768, 4096});
  const int64_t bytes = bytes_of_rows({t[0]});
  if (sums) timer.row("column_sums", "4096 x 32768", "", bytes, [&](int i) { column_sums(t[static_cast<size_t>(i)]); });
  if (drops)
    timer.row("dropout", "4096 x 32768", "forward", 2 * bytes, [&](int i) {
      dropout(t[static_cast<size_t>(i)], 0.1, {1, 2, 3, 0});
    });
}

}  // namespace siamese::cli
