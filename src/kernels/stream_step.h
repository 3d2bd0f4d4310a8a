// The fused stream step: write sub-layer k's output r into the residual streams, read sub-layer k+1's input z from
// them, in one pass over memory. Framework-free: pointers, sizes, a range of rows.
//
//   x̃ = x + a·r          y' = y + r                       (r absent: x̃ = x, y' = y)
//   X = N_x(x̃) or x̃      u = {X | c1⊙x̃} + N_y(y')        (an absent stream contributes nothing)
//   z = N_in(u) or u      streams afterwards: X, y'
//
// which is `pre` with y alone (z = N_y(y')), `post` with x alone (z = X), `siamese` with both, the attention of
// `siamese_hybrid` with c1 and without N_x, and with y alone and no r any single norm.
//
// Backward, with gz, gX, gy' the gradients of the outputs (absent: zero):
//   gu = N_inᵀ gz;  gx̃ = N_xᵀ(gX + gu)  or  gX + c1⊙gu;  gy = gy' + N_yᵀ gu;  gx = gx̃;  gr = a·gx̃ + gy
// Norms: RMS ρ = (mean(x²)+ε)^(-1/2), x̂ = ρx; Layer: x̂ = ρ(x-μ). N(x) = γx̂ + β,
//   Nᵀg = ρ(γg - x̂·mean(x̂γg) [- mean(γg), Layer]),  dγ = Σ g x̂,  dβ = Σ g.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace siamese::kernels {

/// Which of the seven column-sum gradients a slot holds.
enum Column { kGainX, kBiasX, kGainY, kBiasY, kGainIn, kBiasIn, kC1, kColumns };

template <class S, class Z>  // S: type of the streams, Z: type of r, z and the gains
struct StreamStep {
  int64_t d = 0;
  bool layer = false;                                    // LayerNorm instead of RMSNorm
  bool norm_x = false, norm_y = false, norm_in = false;  // which norms exist (a norm may have no gain)
  double eps = 0, a = 1;
  const S *x = nullptr, *y = nullptr;  // [rows, d]
  const Z* r = nullptr;                // [rows, d]
  const Z *gain_x = nullptr, *bias_x = nullptr, *gain_y = nullptr, *bias_y = nullptr;
  const Z *gain_in = nullptr, *bias_in = nullptr, *c1 = nullptr;  // [d] each
  // Forward writes these; x_out and y_out may be null when nobody needs them.
  S *x_out = nullptr, *y_out = nullptr;
  Z* z = nullptr;
  // Backward reads these (gradients of the outputs, null: zero) and writes those.
  const S *g_x_out = nullptr, *g_y_out = nullptr;
  const Z* g_z = nullptr;
  S *g_x = nullptr, *g_y = nullptr;
  Z* g_r = nullptr;  // null when it would equal g_x or g_y
};

/// Rows begin … end-1. `scratch` holds 8·d values.
template <class S, class Z>
void stream_step_forward(const StreamStep<S, Z>& step, int64_t begin, int64_t end, compute_t<Z>* scratch);

/// Adds the column sums of these rows to `columns` [kColumns, d].
template <class S, class Z>
void stream_step_backward(const StreamStep<S, Z>& step, int64_t begin, int64_t end, compute_t<Z>* scratch,
                          compute_t<Z>* columns);

}  // namespace siamese::kernels
