// The step of the hyper-connections as an operator: write a sub-layer's output r into the n streams H, take the maps of
// the next sub-layer from them and read its input.
//
//   H' = A H + B ⊗ r                    A [n to, n from] and B [n] of every token: the maps of the last sub-layer
//   a, A', B' = the maps of H'          see HyperKind
//   h = Σ a_i H'_i,  z = N(h)
//
// A' mixes the streams in the step after this one, so that each step passes over memory once. In the autograd graph the
// tensor H' therefore stands for A' H' and has its gradient, with A' a constant: what a step returns is for another
// step alone. The last step is `sum`, whose H' is what it says.
#pragma once

#include <vector>

#include "ops/stream_step.h"

namespace siamese {

/// sum:     a = 1, no maps; `maps` is empty
/// fixed:   a = α_m, A' = α_rᵀ, B' = β;  maps: alpha_m [n], alpha_r [n from, n to], beta [n]
/// dynamic: each plus s·tanh(N_map(H'_i) w);  maps: the same, w_m [d], w_r [d, n], w_b [d], s_alpha, s_beta
/// mhc:     with x = N_map(H' as one row): a = σ(s x φ + b), B' = 2σ(..), A' [to, from] = Sinkhorn of exp(..), 20
/// rounds
///          over columns, then rows;  maps: phi_pre [n d, n], phi_post, phi_res [n d, n n], b_pre, b_post, b_res,
///          s_pre, s_post, s_res
enum class HyperKind : int64_t { sum, fixed, dynamic, mhc };

struct HyperStepInput {
  at::Tensor h;                // H [..., n, d]
  at::Tensor residual, write;  // A [..., n, n], B [..., n] in fp32 (fp64 for fp64 streams); undefined: H stays
  at::Tensor r;                // [..., d]; undefined: nothing to write
  HyperKind kind = HyperKind::sum;
  Norm norm, map_norm;                // N and N_map; N may be off, N_map has n·d columns under mhc
  std::vector<at::Tensor> maps;       // parameters, see HyperKind
  at::ScalarType dtype = at::kFloat;  // of z, r and the parameters
};

struct HyperStepOutput {
  at::Tensor z, h, residual, write;  // the maps are undefined after `sum`
};

/// Whether the GPU has kernels for streams like h [..., n, d]; the operator goes the plain way for others.
bool hyper_step_has_kernels(const at::Tensor& h);
/// Whether the operator covers this input, and fast; it must then serve every step until a `sum`.
bool hyper_step_fusable(const HyperStepInput& in);
HyperStepOutput hyper_step(const HyperStepInput& in);

/// Columns of the products with the weights: n+2 of every stream (dynamic), 2n + n² of the row (mhc).
inline int64_t hyper_columns(HyperKind kind, int64_t n) {
  return kind == HyperKind::dynamic ? n + 2 : kind == HyperKind::mhc ? 2 * n + n * n : 0;
}
/// What a step keeps of every token for the backward pass, in fp32 (fp64): the products L = ρ (H' w), then ρ of N_map,
/// ρ of N, then zeros up to the width. dynamic has n(n+2) products and n ρ.
inline int64_t hyper_saved_width(HyperKind kind, int64_t n) {
  if (kind == HyperKind::dynamic) return n * (n + 2) + n + 1;
  return kind == HyperKind::mhc ? hyper_columns(kind, n) + 4 : 1;  // rows of mhc are a multiple of 16 bytes
}

}  // namespace siamese
