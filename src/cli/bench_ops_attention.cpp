// Norms of q, k and v in `siamese bench --ops`: as passes of their own between the projection and attention, inside
// both, and inside without a second copy of q and k, each with the product and attention they go with.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "cli/bench_ops.h"
#include "ops/attention_library.h"
#include "ops/attention_norms.h"
#include "ops/gemm.h"
#include "ops/gemm_qkv_norm.h"
#include "ops/gpu_tools.h"
#include "ops/own_attention.h"
#include "ops/qkv_rope.h"

namespace siamese::cli {
namespace {

using at::Tensor;

constexpr int64_t kDim = 64;

struct Shape {
  int64_t batch, length, heads, k;
};

/// Tensors of q's size that are moved: forward beside the projection's input and weight, and back.
struct Way {
  const char* name;
  bool inside, lean;
  int64_t forward, backward;
};

void bench_norms(OpTimer& timer, const Shape& s, const Way& way) {
  const std::string op = fmt::format("qkv_norms {}", way.name);
  if (!timer.wants(op) || !own_attention_fits(kDim, timer.device) ||
      !gpu_tools()->attention_norms_fit(s.batch, s.length, s.heads, s.heads, s.k))
    return;
  const auto x = noise_sets(timer, {s.batch * s.length, s.k}),
             g = noise_sets(timer, {s.batch, s.length, s.heads, kDim});
  const Tensor w = noise_sets(timer, {3 * s.heads * kDim, s.k})[0], gain = at::ones({kDim}, w.options());
  const Tensor angle = at::randn({s.length, kDim / 2}, w.options().dtype(at::kFloat));
  AttentionCore core;
  core.heads = core.kv_heads = s.heads, core.head_dim = kDim, core.cos = at::cos(angle), core.sin = at::sin(angle);
  for (Norm& norm : core.norm) norm = {true, NormKind::rms, 1e-5, gain, {}};
  auto by_heads = [&](const Tensor& t) { return t.view({s.batch, s.length, 3 * s.heads, kDim}); };
  QkvNormed n;
  Tensor projected, packed;
  const auto forward = [&](int set) {
    const Tensor& rows = x[static_cast<size_t>(set)];
    if (way.inside) {
      n = gemm_qkv_norm(rows, w, {gain, gain, gain}, core.cos, core.sin, 1e-5, s.heads, s.heads, s.length, way.lean);
      packed = by_heads(n.out);
    } else {
      projected = by_heads(gemm(rows, w, false, true));
      packed = at::empty_like(projected);
      qkv_rope_out(packed, projected, core);
    }
  };
  const int64_t of_q = bytes_of_rows({g[0]}), ends = bytes_of_rows({x[0], w});
  const std::string size = fmt::format("{} x {}, {} heads", s.batch, s.length, s.heads);
  timer.row(op, size, "product", ends + way.forward * of_q, forward);
  forward(0);
  const auto [out, sums] = own_attention(packed, s.heads, s.heads);
  timer.row(op, size, "attention back", way.backward * of_q, [&](int set) {
    const Tensor& up = g[static_cast<size_t>(set)];
    if (way.inside) {
      attention_norms_backward(up, packed, out, sums, false,
                               {core.cos, core.sin, {gain, gain, gain}, n.raw, n.rho, way.lean});
    } else {
      const Heads h =
          heads_of(own_attention_backward(up, packed, out, sums, false, {}, {}, s.heads, s.heads), s.heads, s.heads);
      qkv_rope_backward(h.q, h.k, h.v, projected, core);
    }
  });
}

}  // namespace

void bench_attention_norms(OpTimer& timer) {
  for (const Way& way : {Way{"apart", false, false, 9, 17}, {"inside", true, false, 5, 10}, {"lean", true, true, 3, 8}})
    bench_norms(timer, {16, 2048, 16, 1024}, way);
}

}  // namespace siamese::cli
