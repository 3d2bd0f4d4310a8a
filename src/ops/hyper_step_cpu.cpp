// The step of the hyper-connections by LibTorch operations: the CPU's code, the GPU's where it has no kernels, and the
// formulas its kernels follow.
//
// Backward. G: the gradient of A' H'; Y = γ gz; ρ of N; u_i = Y·H'_i; v_i = h·H'_i; q = ρ³ Σ a_i u_i / d (no norm: 0).
//   gh = ρ Y - q h             ga_i = ρ u_i - q v_i             gA' = G H'ᵀ             gγ = Σ_tokens gz ρ h
//   gH'_i = Σ_to A'[to, i] G_to + a_i gh + Σ_c e_c w_c - k H'_i
//   gr = Σ B_i gH'_i           gB_i = gH'_i · r                 A H has the gradient gH'
// The maps depend on H' through L = ρ_map (H' w), w = γ_map W. Their gradients ga, gA', gB' give gL, and with it
//   e = ρ_map gL               k = ρ_map² Σ_c gL_c L_c / width
//   D = Σ_tokens H' eᵀ         gW = γ_map D                     gγ_map = Σ_c W_c D_c
#include <ATen/ATen.h>

#include "ops/hyper_step_call.h"

namespace siamese {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int kSinkhornRounds = 20;

/// One division by the sums over `dim` of [tokens, to, from].
struct Division {
  Tensor result, sums;
  int64_t dim;
};
/// The divisions of Sinkhorn's iteration on exp(logits). The column's largest logit cancels in the first of them;
/// without it exp could overflow.
std::vector<Division> sinkhorn(const Tensor& logits) {
  std::vector<Division> steps;
  Tensor m = at::exp(logits - logits.amax(-2, true));
  for (int i = 0; i < 2 * kSinkhornRounds; ++i) {
    const int64_t dim = i % 2 == 0 ? -2 : -1;
    const Tensor sums = m.sum(dim, true);
    steps.push_back({m / sums, sums, dim});
    m = steps.back().result;
  }
  return steps;
}
/// The gradient of the logits. M' = M/s has gM = (gM' - Σ gM' M')/s.
Tensor sinkhorn_backward(const std::vector<Division>& steps, Tensor g) {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    g = (g - (g * step->result).sum(step->dim, true)) / step->sums;
  return g * steps.front().result * steps.front().sums;  // times exp
}

/// Parameters in the type of the arithmetic.
struct Parameters {
  HyperKind kind;
  int64_t n;
  Tensors p;
  Tensor weights, map_gain;  // [d, n+2] or [n d, 2n + n n], without the gain

  Parameters(const HyperSizes& s, at::TensorList maps, const OptionalTensor& gain) : kind(s.kind), n(s.n) {
    for (const Tensor& map : maps) p.push_back(map.to(s.exact));
    if (gain) map_gain = gain->to(s.exact);
    if (kind == HyperKind::dynamic) weights = at::cat({p[3].unsqueeze(1), p[4], p[5].unsqueeze(1)}, 1);
    if (kind == HyperKind::mhc) weights = at::cat({p[0], p[1], p[2]}, 1);
  }
  Tensor gained() const { return map_gain.defined() ? weights * map_gain.unsqueeze(1) : weights; }
  /// What N_map norms: H' [tokens, n, d], or [tokens, 1, n d] under mhc.
  Tensor normed_rows(const Tensor& h) const { return kind == HyperKind::mhc ? h.flatten(1).unsqueeze(1) : h; }
  /// s L + b of mhc's map m: 0 pre, 1 post, 2 res.
  Tensor logits(const Tensor& products, int m) const {
    const Tensor part = products.slice(-1, m * n, m == 2 ? 2 * n + n * n : (m + 1) * n);
    return p[static_cast<size_t>(6 + m)] * part.reshape({products.size(0), m == 2 ? n : 1, n}) +
           p[static_cast<size_t>(3 + m)];
  }
};

/// The maps of every token, and what the backward pass wants besides.
struct Maps {
  Tensor read, residual, write;  // [T, n], [T, n to, n from], [T, n]
  Tensor tanh;                   // dynamic: [T, n, n+2]
  std::vector<Division> divisions;
};

Maps maps_of(const Parameters& q, const Tensor& products, const HyperSizes& s) {
  const int64_t n = s.n;
  if (s.kind == HyperKind::sum) return {at::ones({s.tokens, n}, products.options()), {}, {}, {}, {}};
  if (s.kind == HyperKind::fixed)
    return {q.p[0].expand({s.tokens, n}), q.p[1].t().expand({s.tokens, n, n}), q.p[2].expand({s.tokens, n}), {}, {}};
  if (s.kind == HyperKind::dynamic) {
    const Tensor t = at::tanh(products);
    const Tensor alpha_r = q.p[1] + q.p[6] * t.slice(-1, 1, n + 1);  // [from, to]
    return {q.p[0] + q.p[6] * t.select(-1, 0), alpha_r.transpose(-1, -2), q.p[2] + q.p[7] * t.select(-1, n + 1), t, {}};
  }
  std::vector<Division> divisions = sinkhorn(q.logits(products, 2));
  return {at::sigmoid(q.logits(products, 0)).squeeze(1),
          divisions.back().result,
          2 * at::sigmoid(q.logits(products, 1)).squeeze(1),
          {},
          divisions};
}

/// What a step keeps of every token: L, ρ_map, ρ.
struct Saved {
  Tensor products, map_rho, rho;  // dynamic: [T, n, n+2], [T, n, 1]; mhc: [T, 1, columns], [T, 1, 1]; [T, 1]

  static Saved of(const Tensor& saved, const HyperSizes& s) {
    const Tensor rows = saved.reshape({s.tokens, hyper_saved_width(s.kind, s.n)});
    if (s.kind == HyperKind::sum || s.kind == HyperKind::fixed) return {rows, {}, rows};
    const int64_t groups = s.kind == HyperKind::mhc ? 1 : s.n, columns = hyper_columns(s.kind, s.n);
    return {rows.slice(1, 0, groups * columns).reshape({s.tokens, groups, columns}),
            rows.slice(1, groups * columns, groups * columns + groups).unsqueeze(-1),
            rows.slice(1, groups * columns + groups, groups * columns + groups + 1)};
  }
};

}  // namespace

HyperOutputs hyper_step_plain(SIAMESE_HYPER_ARGS) {
  const HyperSizes s = check_hyper_step(SIAMESE_HYPER_NAMES);
  HyperOutputs out = allocate_hyper_step(h, s);
  auto& [z, h_out, residual_out, write_out, saved] = out;
  Tensor streams = h.to(s.exact).reshape({s.tokens, s.n, s.d});
  if (given(residual).defined()) streams = at::matmul(residual->reshape({s.tokens, s.n, s.n}), streams);
  if (given(r).defined())
    streams = streams + write->reshape({s.tokens, s.n, 1}) * r->to(s.exact).reshape({s.tokens, 1, s.d});
  h_out.copy_(streams.reshape(h.sizes()));
  streams = h_out.to(s.exact).view({s.tokens, s.n, s.d});  // as the backward pass will read them

  const Parameters q(s, maps, map_gain);
  const Saved kept = Saved::of(saved.zero_(), s);
  if (q.weights.defined()) {
    const Tensor rows = q.normed_rows(streams);
    const Tensor rho = at::rsqrt(rows.square().mean(-1, true) + map_eps);
    Tensor(kept.map_rho).copy_(rho);
    Tensor(kept.products).copy_(at::matmul(rows, q.gained()) * rho);
  }
  const Maps m = maps_of(q, kept.products, s);
  if (s.kind != HyperKind::sum)
    residual_out.view_as(m.residual).copy_(m.residual), write_out.view_as(m.write).copy_(m.write);
  Tensor read = (m.read.unsqueeze(-1) * streams).sum(1);
  const Tensor rho = norm ? at::rsqrt(read.square().mean(-1, true) + eps) : at::ones({s.tokens, 1}, read.options());
  Tensor(kept.rho).copy_(rho);
  read = read * rho;
  if (given(gain).defined()) read = read * gain->to(s.exact);
  z.copy_(read.view(z.sizes()));
  return out;
}

namespace {

/// From the gradients of the maps to those of the products H' w (e, k) and of the maps' parameters, into `grads`.
struct ProductGradients {
  Tensor e, k;  // like Saved::products and Saved::map_rho
};
ProductGradients maps_backward(const Parameters& q, const Maps& m, const Saved& kept, const Tensor& g_read,
                               const Tensor& g_residual, const Tensor& g_write, Tensors& grads, int64_t width) {
  const int64_t n = q.n;
  Tensor g;  // of the products L
  if (q.kind == HyperKind::fixed || q.kind == HyperKind::dynamic) {
    // Like `tanh`: stream, then read | residual to 0 … n-1 | write.
    const Tensor all = at::cat({g_read.unsqueeze(-1), g_residual.transpose(-1, -2), g_write.unsqueeze(-1)}, -1);
    const Tensor sums = all.sum(0);
    grads = {sums.select(-1, 0), sums.slice(-1, 1, n + 1), sums.select(-1, n + 1)};
    if (q.kind == HyperKind::fixed) return {};
    const Tensor scaled = all * m.tanh;
    grads.resize(6);
    grads.push_back(scaled.slice(-1, 0, n + 1).sum());
    grads.push_back(scaled.select(-1, n + 1).sum());
    const Tensor scale = at::cat({q.p[6].expand({n + 1}), q.p[7].expand({1})});
    g = all * scale * (1 - m.tanh.square());
  } else {
    const Tensor half = m.write / 2;
    const Tensor of_logits[] = {g_read * m.read * (1 - m.read), g_write * m.write * (1 - half),
                                sinkhorn_backward(m.divisions, g_residual).flatten(1)};
    grads.resize(9);
    Tensors parts;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t from = static_cast<int64_t>(i) * n, to = i == 2 ? 2 * n + n * n : from + n;
      grads[3 + i] = of_logits[i].sum(0).view_as(q.p[3 + i]);
      grads[6 + i] = (of_logits[i] * kept.products.select(1, 0).slice(-1, from, to)).sum();
      parts.push_back(of_logits[i] * q.p[6 + i]);
    }
    g = at::cat(parts, -1).unsqueeze(1);
  }
  const Tensor k = kept.map_rho.square() * (g * kept.products).sum(-1, true) / static_cast<double>(width);
  return {kept.map_rho * g, k};
}

}  // namespace

Tensors hyper_step_backward_plain(SIAMESE_HYPER_BACKWARD_ARGS) {
  const HyperSizes s = hyper_sizes(h, kind);
  const int64_t n = s.n;
  const Tensor streams = h.to(s.exact).reshape({s.tokens, n, s.d});
  auto rows = [&](const OptionalTensor& t, at::IntArrayRef last) {
    std::vector<int64_t> shape{s.tokens};
    shape.insert(shape.end(), last.begin(), last.end());
    return given(t).defined() ? t->to(s.exact).reshape(shape) : at::zeros(shape, streams.options());
  };
  const Tensor g_mixed = rows(g_h, {n, s.d}), g_in = rows(g_z, {s.d}), g_w = rows(g_write, {n});
  const Parameters q(s, maps, map_gain);
  const Saved kept = Saved::of(saved, s);
  const Maps m = maps_of(q, kept.products, s);
  auto dot = [](const Tensor& row, const Tensor& each) { return at::matmul(each, row.unsqueeze(-1)).squeeze(-1); };

  const Tensor read = (m.read.unsqueeze(-1) * streams).sum(1);
  const Tensor y = given(gain).defined() ? g_in * gain->to(s.exact) : g_in;
  const Tensor u = dot(y, streams), v = dot(read, streams);
  const Tensor cubed = norm ? kept.rho.pow(3) * (m.read * u).sum(-1, true) / static_cast<double>(s.d)
                            : at::zeros_like(kept.rho);  // q of the formulas
  const Tensor g_read = kept.rho * y - cubed * read;
  Tensor g = g_read.unsqueeze(1) * m.read.unsqueeze(-1);
  Tensors map_grads;
  Tensor g_map_gain;
  if (s.kind == HyperKind::sum) {
    g = g + g_mixed;
  } else {
    g = g + at::matmul(m.residual.transpose(-1, -2), g_mixed);
    const Tensor g_residual = at::matmul(g_mixed, streams.transpose(-1, -2));
    const Tensor of_streams = q.normed_rows(streams);
    const auto [e, k] =
        maps_backward(q, m, kept, kept.rho * u - cubed * v, g_residual, g_w, map_grads, of_streams.size(-1));
    if (e.defined()) {
      g = g + (at::matmul(e, q.gained().t()) - k * of_streams).reshape(g.sizes());
      const Tensor sums = at::matmul(of_streams.flatten(0, 1).t(), e.flatten(0, 1));  // D
      if (q.map_gain.defined()) g_map_gain = (q.weights * sums).sum(1).to(h.scalar_type());
      const Tensor g_weights = q.map_gain.defined() ? sums * q.map_gain.unsqueeze(1) : sums;
      const size_t first = s.kind == HyperKind::dynamic ? 3 : 0;
      const int64_t second = s.kind == HyperKind::dynamic ? 1 : n, third = s.kind == HyperKind::dynamic ? n + 1 : 2 * n;
      map_grads[first] = g_weights.slice(1, 0, second), map_grads[first + 1] = g_weights.slice(1, second, third);
      map_grads[first + 2] = g_weights.slice(1, third);
    }
  }
  Tensors result(kHyperGradMaps);
  result[kHyperGradH] = g.to(h.scalar_type()).reshape(h.sizes());
  if (given(write).defined()) result[kHyperGradWrite] = at::zeros_like(*write);
  if (given(r).defined()) {
    const Tensor b = write->reshape({s.tokens, n, 1});
    result[kHyperGradR] = (b * g).sum(1).to(h.scalar_type()).reshape(r->sizes());
    result[kHyperGradWrite] = dot(rows(r, {s.d}), g).reshape(write->sizes());
  }
  if (given(gain).defined()) result[kHyperGradGain] = (g_in * read * kept.rho).sum(0).to(h.scalar_type());
  if (given(map_gain).defined())
    result[kHyperGradMapGain] = g_map_gain.defined() ? g_map_gain : at::zeros_like(*map_gain);
  for (size_t i = 0; i < map_grads.size(); ++i)  // copies: the parts of a sum share memory, results must not
    result.push_back(at::empty_like(maps[i]).copy_(map_grads[i].reshape(maps[i].sizes())));
  return without_gaps(std::move(result), h);
}

TORCH_LIBRARY_IMPL(siamese, CompositeExplicitAutograd, m) {
  m.impl("hyper_step", hyper_step_plain);
  m.impl("hyper_step_backward", hyper_step_backward_plain);
}

}  // namespace siamese
