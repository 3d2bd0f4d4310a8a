// The experts of a mixture: which rows each of them computes, and the computation itself. With T tokens, k experts a
// token and R rows (T·k where nobody is dropped), sorted by expert:
//   r_t = Σ_j weight[t, j] · W2_e · activation(W1_e x_t),  e = chosen[t, j]
// Everything is linear in T: rows are gathered, multiplied expert by expert, and gathered back; nothing is T × E wide
// but the router's scores. The sum over j runs in order for each token, so no result depends on threads.
// Backward, for row i of token t, u = W2_eᵀ g_t, h = activation(p), p = W1_e x_t:
//   g_weight = ⟨u, h⟩;  g_h = weight·u;  g_W2 += g_t (weight·h)ᵀ;  g_W1 += g_p x_tᵀ;  g_x += W1_eᵀ g_p
// p is kept, nothing else of that size.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/activation.h"

namespace siamese {

struct ExpertRows {
  at::Tensor token;   // [R] int64: whose row it is; rows of an expert lie together, in the order of their tokens
  at::Tensor slot;    // [R] int64: t·k + j
  at::Tensor place;   // [T·k] int64: the row of slot t·k + j, or -1 where it was dropped
  at::Tensor load;    // [E] int64: tokens sent to each expert
  at::Tensor counts;  // [E] int64: rows it computes; less than `load` where it drops some
};

/// chosen [T, k] int64: the experts of each token. `capacity`: rows an expert takes, first come first served; 0: all.
ExpertRows expert_rows(const at::Tensor& chosen, int64_t experts, int64_t capacity = 0);

/// x [T, d], weights [T, k] (fp32 where x is bf16), w1 [E, hidden, d], w2 [E, d, width] -> [T, d] in the type of x.
/// fp32, bf16 and fp64 on the CPU have a path with the backward pass above; elsewhere, or not `fused`, plain operators.
at::Tensor experts(const at::Tensor& x, const ExpertRows& rows, const at::Tensor& weights, const at::Tensor& w1,
                   const at::Tensor& w2, Activation kind, bool fused = true);
at::Tensor experts_plain(const at::Tensor& x, const ExpertRows& rows, const at::Tensor& weights, const at::Tensor& w1,
                         const at::Tensor& w2, Activation kind);

}  // namespace siamese
