// The pass before attention by LibTorch's operations: what the fused one is tested against, and what the CPU runs.
#include "ops/qkv_rope.h"
#include "ops/rope.h"

namespace siamese {
namespace {

using at::Tensor;

at::ScalarType statistics_type(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// Gradients of x, gain and bias of h = N(x)·gain + bias; undefined where there is no gain or bias.
struct NormGradients {
  Tensor x, gain, bias;
};

//   x̂ = c/√(mean c² + eps) with c = x, or x - mean x;  gx = (gx̂ - x̂·mean(gx̂·x̂) [- mean gx̂])/√…
NormGradients norm_backward(const Tensor& g, const Tensor& x, const Norm& norm) {
  if (!norm.on) return {g, {}, {}};
  const bool layer = norm.kind == NormKind::layer;
  Tensor c = x.to(g.scalar_type());
  if (layer) c = c - c.mean(-1, true);
  const Tensor inverse = at::rsqrt(c.square().mean(-1, true) + norm.eps), hat = c * inverse;
  const Tensor gh = norm.gain.defined() ? g * norm.gain : g;
  Tensor gx = gh - hat * (gh * hat).mean(-1, true);
  if (layer) gx = gx - gh.mean(-1, true);
  return {gx * inverse, norm.gain.defined() ? (g * hat).sum({0, 1, 2}) : Tensor(),
          norm.bias.defined() ? g.sum({0, 1, 2}) : Tensor()};
}

}  // namespace

Tensor qkv_rope_plain(const Tensor& qkv, const AttentionCore& core) {
  const std::vector<Tensor> parts = qkv.split_with_sizes({core.heads, core.kv_heads, core.kv_heads}, 2);
  std::vector<Tensor> out;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor t = norm_plain(parts[i], core.norm[i], qkv.scalar_type());
    out.push_back(i < 2 ? rope_plain(t, core.cos, core.sin) : t);
  }
  return at::cat(out, 2);
}

std::vector<Tensor> qkv_rope_backward_plain(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& qkv,
                                            const AttentionCore& core) {
  const std::vector<Tensor> parts = qkv.split_with_sizes({core.heads, core.kv_heads, core.kv_heads}, 2);
  const Tensor g[] = {gq, gk, gv};
  std::vector<Tensor> gx, result(7);
  for (size_t i = 0; i < 3; ++i) {
    const Tensor exact = g[i].to(statistics_type(qkv));
    // A rotation's transpose is the rotation back.
    const NormGradients n =
        norm_backward(i < 2 ? rope_plain(exact, core.cos, -core.sin) : exact, parts[i], core.norm[i]);
    gx.push_back(n.x.to(qkv.scalar_type()));
    auto gradient = [&](const Tensor& found, const Tensor& of) {  // of a norm that is off: zero
      return found.defined() ? found.to(qkv.scalar_type())
             : of.defined()  ? at::zeros_like(of)
                             : at::empty({0}, qkv.options());
    };
    result[1 + i] = gradient(n.gain, core.norm[i].gain), result[4 + i] = gradient(n.bias, core.norm[i].bias);
  }
  result[0] = at::cat(gx, 2);
  return result;
}

}  // namespace siamese
