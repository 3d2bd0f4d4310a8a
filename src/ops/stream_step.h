// The stream step as an operator: write a sub-layer's output into the residual streams and read the next one's input,
// fused (kernels/stream_step.h has the formulas) or by plain LibTorch operations. Both compute the same function.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/gemm_qkv_rope.h"

namespace siamese {

enum class NormKind { rms, layer };

/// A norm that exists (`on`) with optional gain and bias [d].
struct Norm {
  bool on = false;
  NormKind kind = NormKind::rms;
  double eps = 1e-5;
  at::Tensor gain, bias;
};

/// Undefined tensors and norms that are off are absent; see the formulas.
struct StreamStepInput {
  at::Tensor x, y;  // streams [..., d] before the write
  at::Tensor r;     // the sub-layer's output
  double a = 1.0;   // what r is multiplied with on x
  Norm norm_x, norm_y, norm_in;
  at::Tensor c1;                      // [d]
  at::ScalarType dtype = at::kFloat;  // of z
  Norm norm_r;                        // on r before it is written (with y alone)
  at::Tensor gate, row_scale;         // [B, d] and [B] on r
  at::Tensor scale, shift;            // [B, d]: z·(1+scale) + shift
  bool read_y = true;                 // z reads y
  /// A norm on x may stay pending: x is then x̃ and stands for X = N(x̃). The next step takes the norm and the
  /// statistics along and writes into X without X ever lying in memory. The gradient of such an x is X's by convention,
  /// so nothing but a stream step may read it.
  Norm pending;
  at::Tensor pending_stats;
  bool defer = false;
  /// With two streams and a norm pending, y's gradient is by convention that of y + a·X, so that it is r's as well and
  /// lies in memory once. `joined`: y came from a step that left its norm pending; a_next: what the next step's a will
  /// be, where this one defers.
  bool joined = false;
  double a_next = 0;
  /// What z is multiplied with; z itself is then rebuilt in the backward pass instead of kept.
  at::Tensor weight, bias;
  bool swiglu = false;  // the product's SwiGLU is wanted too, for whoever consumes it next
  Turn turn;            // what the product is turned by; its gradient is that before, by convention
};

struct StreamStepOutput {
  at::Tensor z, x, y;         // z: projected where a weight was given
  at::Tensor stats;           // of a norm left pending on x
  at::Tensor activated = {};  // SwiGLU of z, a value without gradient, where it was wanted and cost nothing
};

/// Whether the fused operator covers this input (device, types, one kind of norm with one epsilon); otherwise use
/// `stream_step_plain`.
bool stream_step_fusable(const StreamStepInput& in);
/// Whether the kernels on this device can leave a norm pending and rebuild z.
bool stream_step_defers(const at::Tensor& stream);
StreamStepOutput stream_step(const StreamStepInput& in);
StreamStepOutput stream_step_plain(const StreamStepInput& in);

/// N(x) in type `dtype`, statistics in fp32 (fp64 for fp64).
at::Tensor norm_plain(const at::Tensor& x, const Norm& norm, at::ScalarType dtype);
/// The same, fused where possible.
at::Tensor apply_norm(const at::Tensor& x, const Norm& norm, at::ScalarType dtype, bool fused = true);

}  // namespace siamese
