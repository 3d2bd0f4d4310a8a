#include "ops/attention_norms.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "ops/attention_plain.h"
#include "ops/gemm_qkv_norm.h"
#include "ops/gpu_tools.h"
#include "ops/own_attention.h"
#include "ops/rope.h"

namespace siamese {
namespace {

using at::Tensor;
using Results = std::tuple<Tensor, Tensor>;

Results backward_cpu(const Tensor& g, const Tensor& qkv, const Tensor& out, const Tensor&, bool, const Tensor& cos,
                     const Tensor& sin, at::TensorList gains, const Tensor& raw, const Tensor& rho, bool lean) {
  attention_norms_check(qkv, gains, raw, rho);
  const int64_t heads = qkv.size(2) / 3;
  const Heads gh = attention_plain_backward(g, heads_of(qkv, heads, heads), out, true);
  return norms_backward_plain(at::cat({gh.q, gh.k, gh.v}, 2), qkv, cos, sin, gains, raw, rho, lean);
}

Results backward_meta(const Tensor&, const Tensor& qkv, const Tensor&, const Tensor&, bool, const Tensor&,
                      const Tensor&, at::TensorList, const Tensor&, const Tensor&, bool) {
  return {at::empty_symint(qkv.sym_sizes(), qkv.options()), at::empty_symint({3, qkv.sym_size(3)}, qkv.options())};
}

Results call(const Tensor& g, const Tensor& qkv, const Tensor& out, const Tensor& log_sums, bool natural,
             const Tensor& cos, const Tensor& sin, at::TensorList gains, const Tensor& raw, const Tensor& rho,
             bool lean) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::attention_norms_backward", "").typed<decltype(call)>();
  return op.call(g, qkv, out, log_sums, natural, cos, sin, gains, raw, rho, lean);
}

bool environment_says(const char* name, const char* value) {
  const char* given = std::getenv(name);
  return given != nullptr && std::strcmp(given, value) == 0;
}
std::atomic<bool>& inside() {
  static std::atomic<bool> yes{!environment_says("SIAMESE_NORMS_INSIDE", "0")};
  return yes;
}
std::atomic<bool>& lean_ones() {
  static std::atomic<bool> yes{environment_says("SIAMESE_LEAN_NORMS", "1")};
  return yes;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "attention_norms_backward(Tensor g, Tensor qkv, Tensor out, Tensor log_sums, bool natural, Tensor cos, Tensor "
      "sin, Tensor[] gains, Tensor raw, Tensor rho, bool lean) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("attention_norms_backward", backward_cpu); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) { m.impl("attention_norms_backward", backward_meta); }

void attention_norms_check(const Tensor& qkv, at::TensorList gains, const Tensor& raw, const Tensor& rho) {
  TORCH_CHECK(qkv.dim() == 4 && qkv.size(2) % 3 == 0,
              "[attention_norms_backward] qkv must be [B, T, 3 heads, dim] but is ", qkv.sizes());
  TORCH_CHECK(gains.size() == 3 && 3 * raw.numel() == 2 * qkv.numel() && rho.numel() * qkv.size(3) == qkv.numel(),
              "[attention_norms_backward] gains, raw and rho must be what gemm_qkv_norm took and returned, but raw is ",
              raw.sizes(), " and rho ", rho.sizes());
}

std::tuple<Tensor, Tensor> norms_backward_plain(const Tensor& g_y, const Tensor& qkv, const Tensor& cos,
                                                const Tensor& sin, at::TensorList gains, const Tensor& raw,
                                                const Tensor& rho, bool lean) {
  const int64_t b = qkv.size(0), t = qkv.size(1), heads = qkv.size(2) / 3, dim = qkv.size(3);
  const auto exact = rho.scalar_type();
  const Tensor all_rho = rho.view({3, heads, b, t}).permute({0, 2, 3, 1}).unsqueeze(-1);
  const Tensor x = raw.view({b, t, 2 * heads, dim}).to(exact), told = lean ? gains_tell(gains) : Tensor();
  std::vector<Tensor> result, sums;
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor gain = head_gain(gains[static_cast<size_t>(i)], exact), r = all_rho[i];
    Tensor up = g_y.narrow(2, i * heads, heads).to(exact);
    if (i < 2) up = rope_plain(up.contiguous(), cos, -sin);
    const auto of_y = [&] {
      const Tensor y = qkv.narrow(2, i * heads, heads).to(exact);
      return (i < 2 ? rope_plain(y.contiguous(), cos, -sin) : y) / gain;
    };
    const auto of_x = [&] { return x.narrow(2, i * heads, heads) * r; };
    const Tensor hat = i == 2 ? of_y() : lean ? at::where(told, of_y(), of_x()) : of_x();
    const Tensor scaled = up * gain;
    sums.push_back((up * hat).sum({0, 1, 2}));
    result.push_back(r * (scaled - hat * (scaled * hat).mean(-1, true)));
  }
  return {at::cat(result, 2).to(qkv.scalar_type()), at::stack(sums).to(qkv.scalar_type())};
}

std::tuple<Tensor, Tensor> attention_norms_backward(const Tensor& g, const Tensor& qkv, const Tensor& out,
                                                    const Tensor& log_sums, bool natural, const AttentionNorms& norms) {
  return call(g, qkv, out, log_sums, natural, norms.cos, norms.sin, {norms.gain[0], norms.gain[1], norms.gain[2]},
              norms.raw, norms.rho, norms.lean);
}

bool norms_inside() { return inside(); }
bool norms_inside_serve(int64_t batch, int64_t length, const AttentionShape& shape, int64_t k, at::Device device) {
  return norms_inside() && own_attention_fits(shape.head_dim, device) &&
         gpu_tools()->attention_norms_fit(batch, length, shape.heads, shape.kv_heads, k);
}
void set_norms_inside(bool yes) { inside() = yes; }
bool lean_norms() { return lean_ones(); }
void set_lean_norms(bool yes) { lean_ones() = yes; }

}  // namespace siamese
