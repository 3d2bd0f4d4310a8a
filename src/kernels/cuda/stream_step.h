// The fused stream step on the GPU: kernels/stream_step.h has the core of the formulas; here the whole of it.
//
//   X₀ = x, or γ₀(x-μ₀)ρ₀ + β₀ where x is kept raw with its norm pending (stats₀: ρ₀ [, μ₀] of each row)
//   w  = s_b · N_r(g_b ⊙ r)                     g_b [samples, d] gate, s_b [samples] row scale (DropPath)
//   x̃  = X₀ + a·w          y' = y + w           rounded to the streams' type before anything reads them
//   X  = N_x(x̃) or x̃       u  = {X | c1⊙x̃} + {N_y(y') | y'}      (an absent stream contributes nothing)
//   z  = N_in(u) ⊙ (1 + scale_b) + shift_b
//
// One pass: x, y, r are read once; x̃, X, y', z and the statistics (fp32) are written once. The backward pass reads x̃,
// y', the statistics and the gradients, and rebuilds every normed value, z included where the caller wants it.
//
// Layout: a row belongs to one or more warps (step_common.cuh), and a block walks over a contiguous part of the rows,
// so that each lane keeps its columns: their sums are taken on the way (stage one, in shared memory), one partial row a
// block; stage two adds the partial rows in order. A part never crosses a sample, so that the same two stages give the
// sums per sample of gate, scale and shift. No atomics: the result depends on nothing but the sizes and the number of
// multiprocessors.
//
// The forms training runs through have faster kernels on GPUs from Hopper on, for widths that suit them (step_tile.h):
// whole rows are fetched ahead into shared memory, and a block's part is every so-many-th tile of rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

/// Types of the streams and of the values (r, z, gains, modulation).
enum class StepTypes { bf16_bf16, fp32_bf16, fp32_fp32 };

/// Column sums of the backward pass. The first slot serves the norm on x, c1 (no norm on x) or N_r (no x).
enum StepColumn { kStepGainA, kStepGainY, kStepGainIn, kStepBiasA, kStepBiasY, kStepBiasIn };
enum StepSampleColumn { kStepScale, kStepShift, kStepGate };

struct StepCuda {
  StepTypes types;
  int64_t rows = 0, d = 0, samples = 1;  // d is a multiple of 8, samples divides rows, every pointer is 16-byte aligned
  int64_t width = 0;                     // columns that count; those up to d are 0 and stay 0
  bool layer = false, norm_r = false, norm_x = false, norm_y = false, norm_in = false;
  bool skip_y = false;                       // z does not read y
  bool affine_y = false, affine_in = false;  // the caller's own γ or β on N_y, N_in
  float eps = 0, a = 1;
  // backward: g_y_out comes with a_next·g_x_out added; joined: g_y goes with a·g_x added. In that form y's gradient is
  // r's too where nothing lies on r.
  float a_next = 0;
  bool joined = false;
  const void *x = nullptr, *y = nullptr, *r = nullptr;  // [rows, d]
  const float* stats_before = nullptr;                  // of x where its norm is pending: [6, rows], rows 0, 3
  // Vectors [d]. A norm that is on has a gain, and under LayerNorm a bias; RMSNorm has none.
  const void *gain_before = nullptr, *bias_before = nullptr;
  const void *gain_a = nullptr, *bias_a = nullptr;  // [d] of N_x, or of N_r
  const void *gain_y = nullptr, *bias_y = nullptr, *gain_in = nullptr, *bias_in = nullptr, *c1 = nullptr;
  const void *gate = nullptr, *scale = nullptr, *shift = nullptr;  // [samples, d]
  int64_t sample_stride = 0;                                       // values between their rows, a multiple of 8
  const float* row_scale = nullptr;                                // [samples]
  // forward: written; any may be null except z and stats
  void *x_raw = nullptr, *x_out = nullptr, *y_out = nullptr, *z = nullptr;
  float* stats = nullptr;  // [6, rows]: ρ of A, y, in; then μ of the same (layer)
  // backward: x is x̃, y is y', r only where its norm or the gate needs it, stats is read
  const void *g_z = nullptr, *g_x_out = nullptr, *g_y_out = nullptr;  // null: zero
  void *g_x = nullptr, *g_y = nullptr, *g_r = nullptr;                // null: not wanted
  void* z_again = nullptr;                                            // z rebuilt; null: not wanted
  // [parts, columns, d], then [by_sample, 3, d], see StepParts; columns of norms that are off may be left as they are
  float* partial = nullptr;
};

/// How many parts the backward pass cuts the rows in (a multiple of samples) and how many columns it sums. Where
/// `by_sample` is not 0, the sums per sample lie behind the others, [by_sample, 3, d] by StepSampleColumn; otherwise
/// they are the last columns of the parts.
struct StepParts {
  int parts = 0, columns = 0, by_sample = 0;
};
cudaError_t step_parts(const StepCuda& call, StepParts* out);

cudaError_t step_forward_cuda(const StepCuda& call, cudaStream_t stream);
cudaError_t step_backward_cuda(const StepCuda& call, const StepParts& parts, cudaStream_t stream);

/// Stage two, several columns in one launch: out[g, c] = Σ over the parts of group g of partial[part, column, c],
/// rounded to type (0 fp32, 2 bf16). groups divides parts; group g has the parts from g·parts/groups on. `early`: the
/// kernel before it may still run when it is launched (early_launch.cuh).
struct ColumnSums {
  static constexpr int kMost = 6;
  int count = 0;
  int column[kMost] = {};
  void* out[kMost] = {};  // [groups, d] each
};
cudaError_t sum_columns_cuda(const float* partial, const StepParts& parts, int64_t d, int groups,
                             const ColumnSums& sums, int type, cudaStream_t stream, bool early = true);

}  // namespace siamese::kernels
