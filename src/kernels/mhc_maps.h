// mhc's maps of one token, forward and backward, in fp32: what a GPU thread does, and the CPU tests call.
//
// L [2n + n²]: the products ρ_map H' w, columns read | write | residual [to][from]; logits l = s L + b:
//   read = σ(l), write = 2σ(l), residual = Sinkhorn of exp(l): 20 rounds of dividing by the column sums (over `to`),
//   then by the row sums (over `from`).
// A division M' = M/s has gM = (gM' - Σ gM' M')/s. The backward pass keeps the 40·n sums and walks back from the result
// by M = M' s, so that a thread holds one matrix and its gradient, not 40 of them.
#pragma once

#include <cmath>

#include "util/philox.h"  // SIAMESE_HD

#ifdef __CUDACC__
#define SIAMESE_UNROLL _Pragma("unroll")
#else
#define SIAMESE_UNROLL
#endif

namespace siamese::kernels {

constexpr int kSinkhornDivisions = 40;

template <int N>
constexpr int kMhcColumns = 2 * N + N* N;

/// b in the order of the columns; s of read, write, residual.
template <int N>
struct MhcMapParameters {
  float b[kMhcColumns<N>], s[3];
};

#ifdef __CUDA_ARCH__  // an error of 1 or 2 units in the last place instead of half a unit, for few instructions
__device__ inline float reciprocal(float x) {  // one instruction: __fdividef has seven, for numbers near 2⁻¹²⁷ and 2¹²⁷
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
#else
inline float reciprocal(float x) { return 1.f / x; }
inline float sigmoid(float x) { return 1.f / (1.f + std::exp(-x)); }
#endif

/// m[to·N + from] becomes exp(m), the column's largest taken away: it cancels in the first division, and without that
/// exp could overflow.
template <int N>
SIAMESE_HD void sinkhorn_start(float (&m)[N * N]) {
  SIAMESE_UNROLL
  for (int from = 0; from < N; ++from) {
    float largest = m[from];
    SIAMESE_UNROLL
    for (int to = 1; to < N; ++to) largest = fmaxf(largest, m[to * N + from]);
    SIAMESE_UNROLL
    for (int to = 0; to < N; ++to) m[to * N + from] = expf(m[to * N + from] - largest);
  }
}

/// Element j of line i: a column (`over_to`) or a row.
template <int N>
SIAMESE_HD constexpr int sinkhorn_index(bool over_to, int i, int j) {
  return over_to ? j * N + i : i * N + j;
}

template <int N>
SIAMESE_HD void sinkhorn_divide(float (&m)[N * N], bool over_to, float (&sums)[N]) {
  SIAMESE_UNROLL
  for (int i = 0; i < N; ++i) {
    sums[i] = 0.f;
    SIAMESE_UNROLL
    for (int j = 0; j < N; ++j) sums[i] += m[sinkhorn_index<N>(over_to, i, j)];
    const float inverse = reciprocal(sums[i]);
    SIAMESE_UNROLL
    for (int j = 0; j < N; ++j) m[sinkhorn_index<N>(over_to, i, j)] *= inverse;
  }
}

/// From the result m of a division and its gradient g to those before it.
template <int N>
SIAMESE_HD void sinkhorn_divide_backward(float (&m)[N * N], float (&g)[N * N], bool over_to, const float (&sums)[N]) {
  SIAMESE_UNROLL
  for (int i = 0; i < N; ++i) {
    float dot = 0.f;
    SIAMESE_UNROLL
    for (int j = 0; j < N; ++j) {
      const int at = sinkhorn_index<N>(over_to, i, j);
      dot += g[at] * m[at];
    }
    const float inverse = reciprocal(sums[i]);
    SIAMESE_UNROLL
    for (int j = 0; j < N; ++j) {
      const int at = sinkhorn_index<N>(over_to, i, j);
      g[at] = (g[at] - dot) * inverse;
      m[at] *= sums[i];
    }
  }
}

/// `keep(division, sums)` sees the sums of every division.
template <int N, class Keep>
SIAMESE_HD void sinkhorn(float (&m)[N * N], const Keep& keep) {
  sinkhorn_start<N>(m);
  for (int round = 0; round < kSinkhornDivisions / 2; ++round) {
    float sums[N];
    sinkhorn_divide<N>(m, true, sums);
    keep(2 * round, sums);
    sinkhorn_divide<N>(m, false, sums);
    keep(2 * round + 1, sums);
  }
}

/// The gradient g of the result becomes that of the logits. `recall(division, sums)` returns what `keep` saw.
template <int N, class Recall>
SIAMESE_HD void sinkhorn_backward(float (&m)[N * N], float (&g)[N * N], const Recall& recall) {
  for (int round = kSinkhornDivisions / 2 - 1; round >= 0; --round) {
    float sums[N];
    recall(2 * round + 1, sums);
    sinkhorn_divide_backward<N>(m, g, false, sums);
    recall(2 * round, sums);
    sinkhorn_divide_backward<N>(m, g, true, sums);
  }
  SIAMESE_UNROLL
  for (int i = 0; i < N * N; ++i) g[i] *= m[i];  // m is exp again
}

template <int N>
SIAMESE_HD void mhc_logits(const float (&products)[kMhcColumns<N>], const MhcMapParameters<N>& p,
                           float (&logits)[kMhcColumns<N>]) {
  SIAMESE_UNROLL
  for (int c = 0; c < kMhcColumns<N>; ++c) logits[c] = p.s[c < N ? 0 : c < 2 * N ? 1 : 2] * products[c] + p.b[c];
}

template <int N>
SIAMESE_HD void mhc_maps(const float (&products)[kMhcColumns<N>], const MhcMapParameters<N>& p, float (&read)[N],
                         float (&write)[N], float (&residual)[N * N]) {
  float l[kMhcColumns<N>];
  mhc_logits<N>(products, p, l);
  SIAMESE_UNROLL
  for (int i = 0; i < N; ++i) read[i] = sigmoid(l[i]), write[i] = 2.f * sigmoid(l[N + i]);
  SIAMESE_UNROLL
  for (int i = 0; i < N * N; ++i) residual[i] = l[2 * N + i];
  sinkhorn<N>(residual, [](int, const float(&)[N]) {});
}

/// A token of the backward pass: the sums over its row (formulas: ops/hyper_step_cpu.cpp) and what they become.
template <int N>
struct MhcTokenGradient {
  float mixed[N * N], u[N], v[N], g_write[N];  // in: G H'ᵀ [to][from], Y·H'_i, h·H'_i, gradient of `write`
  float map_rho, rho;                          // in
  float read[N], residual[N * N];              // out: the maps again
  float q, k;                                  // out: gh = ρ Y - q h; gH' loses k H'
  float g_logits[kMhcColumns<N>];              // out
  float e[kMhcColumns<N>];                     // out: of the products H' w
};

template <int N, class Keep, class Recall>
SIAMESE_HD void mhc_token_backward(const float (&products)[kMhcColumns<N>], const MhcMapParameters<N>& p, bool norm,
                                   float d, MhcTokenGradient<N>& t, const Keep& keep, const Recall& recall) {
  float l[kMhcColumns<N>];
  mhc_logits<N>(products, p, l);
  t.q = 0.f;
  SIAMESE_UNROLL
  for (int i = 0; i < N; ++i) t.read[i] = sigmoid(l[i]), t.q += t.read[i] * t.u[i];
  t.q = norm ? t.q * t.rho * t.rho * t.rho / d : 0.f;
  SIAMESE_UNROLL
  for (int i = 0; i < N; ++i) {
    const float half = sigmoid(l[N + i]);
    t.g_logits[i] = (t.rho * t.u[i] - t.q * t.v[i]) * t.read[i] * (1.f - t.read[i]);
    t.g_logits[N + i] = t.g_write[i] * 2.f * half * (1.f - half);
  }
  float m[N * N], g[N * N];
  SIAMESE_UNROLL
  for (int i = 0; i < N * N; ++i) m[i] = l[2 * N + i], g[i] = t.mixed[i];
  sinkhorn<N>(m, keep);
  SIAMESE_UNROLL
  for (int i = 0; i < N * N; ++i) t.residual[i] = m[i];
  sinkhorn_backward<N>(m, g, recall);
  t.k = 0.f;
  SIAMESE_UNROLL
  for (int c = 0; c < kMhcColumns<N>; ++c) {
    if (c >= 2 * N) t.g_logits[c] = g[c - 2 * N];
    const float g_product = p.s[c < N ? 0 : c < 2 * N ? 1 : 2] * t.g_logits[c];
    t.e[c] = t.map_rho * g_product;
    t.k += g_product * products[c];
  }
  t.k *= t.map_rho * t.map_rho / (static_cast<float>(N) * d);
}

}  // namespace siamese::kernels
