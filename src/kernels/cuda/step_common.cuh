// Shared by the two passes of the stream step: a lane's place in its row, sums over a row, the launch shape.
//
// A row belongs to W warps (a power of two), each lane having V vectors of 8 neighbouring columns. Many values a lane
// is what makes these kernels fast: at 8 a lane the shuffles, addresses and branches cost more than the arithmetic, and
// the kernel waits for instructions instead of memory (measured: 61 % of the copy's bandwidth at V = 1).
#pragma once

#include <type_traits>

#include "kernels/cuda/processors.h"
#include "kernels/cuda/stream_step.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {

constexpr int kStepThreads = 256;

/// The forms training runs through have kernels of their own, in which what exists is known to the compiler; asking for
/// every option in every row costs a fifth of the time. whole: `pre` (one stream) and `siamese` with all its norms, an
/// update pending; mixed: the attention of `siamese_hybrid` (c1, N_y).
enum class StepForm { any, whole, mixed };

/// W is 0 where it is known only at run time: constants turn most address arithmetic into fixed offsets.
template <int W>
struct StepPlace {
  int row_threads, rows_at_once, slot;  // slot: which of the block's rows
  int lane;                             // of the row

  __device__ explicit StepPlace(int threads_a_row)
      : row_threads(W > 0 ? 32 * W : threads_a_row),
        rows_at_once(kStepThreads / row_threads),
        slot(static_cast<int>(threadIdx.x) / row_threads),
        lane(static_cast<int>(threadIdx.x) % row_threads) {}
  __device__ __forceinline__ int column(int k) const { return 8 * (lane + k * row_threads); }
};

/// Sums over all lanes of a row, for N values at once. Two shared buffers in turn: one barrier a call suffices.
template <int W>
class RowSums {
 public:
  __device__ RowSums(int row_threads, float inverse) : warps_(W > 0 ? W : row_threads / 32), inverse_(inverse) {}

  /// Replaces each value by its sum over the row times `inverse`: a mean.
  template <int N>
  __device__ void mean(float (&v)[N]) {
    static_assert(N <= 4);
    __shared__ float buffer[2][kStepThreads / 32][4];
#pragma unroll
    for (int n = 0; n < N; ++n) v[n] = warp_sum(v[n]);
    if (warps_ > 1) {
      const int warp = static_cast<int>(threadIdx.x) / 32;
      if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int n = 0; n < N; ++n) buffer[turn_][warp][n] = v[n];
      }
      __syncthreads();
      const int first = warp / warps_ * warps_;
#pragma unroll
      for (int n = 0; n < N; ++n) v[n] = 0.f;
      for (int w = first; w < first + warps_; ++w) {
#pragma unroll
        for (int n = 0; n < N; ++n) v[n] += buffer[turn_][w][n];
      }
      turn_ ^= 1;
    }
#pragma unroll
    for (int n = 0; n < N; ++n) v[n] *= inverse_;
  }

 private:
  int warps_, turn_ = 0;
  float inverse_;
};

/// The rows of one part of one sample.
struct StepRows {
  int64_t begin, end, sample;
};
__device__ __forceinline__ StepRows step_rows(const StepCuda& p) {
  const int64_t per_sample = p.rows / p.samples, parts = gridDim.x / p.samples;
  const int64_t sample = blockIdx.x / parts, part = blockIdx.x - sample * parts;
  const int64_t size = (per_sample + parts - 1) / parts;
  const int64_t begin = part * size < per_sample ? part * size : per_sample;
  const int64_t end = begin + size < per_sample ? begin + size : per_sample;
  return {sample * per_sample + begin, sample * per_sample + end, sample};
}

/// Eight values of a vector [d]. Read anew for every row: it stays in the first-level cache, where it costs less than
/// the registers that would hold it. Beyond the row's end any gain will do, the values it meets there are 0; a bias is
/// 0.
template <class Z>
__device__ __forceinline__ Float8 gain8(const void* p, int column, int d) {
  return load8(static_cast<const Z*>(p) + (column < d ? column : 0));
}
template <class Z>
__device__ __forceinline__ Float8 bias8(const void* p, int column, int d) {
  return load8_if(column < d, static_cast<const Z*>(p) + column);
}

/// ρ(v - mean); under LayerNorm 0 where the row has ended.
template <bool layer>
__device__ __forceinline__ Float8 hat_of(const Float8& v, float mean, float rho, int count) {
  Float8 f;
#pragma unroll
  for (int i = 0; i < 8; ++i) f.v[i] = !layer ? v.v[i] * rho : i >= count ? 0.f : (v.v[i] - mean) * rho;
  return f;
}
/// γv, and + β under LayerNorm (RMSNorm has no bias here)
template <bool layer>
__device__ __forceinline__ Float8 affine(const Float8& v, const Float8& gain, const Float8& bias) {
  Float8 f;
#pragma unroll
  for (int i = 0; i < 8; ++i) f.v[i] = layer ? v.v[i] * gain.v[i] + bias.v[i] : v.v[i] * gain.v[i];
  return f;
}
__device__ __forceinline__ Float8 product(const Float8& a, const Float8& b) {
  Float8 f;
#pragma unroll
  for (int i = 0; i < 8; ++i) f.v[i] = a.v[i] * b.v[i];
  return f;
}
__device__ __forceinline__ void add(Float8& sum, const Float8& a) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum.v[i] += a.v[i];
}

struct StepShape {
  int row_threads, vectors;
};
/// V is 2, 3, 4 or 8; above 2 only where the registers last (RMSNorm on bf16 streams: 4 for one stream, 3 for two where
/// that spares a second warp) or where rows are too long otherwise.
inline StepShape step_shape(const StepCuda& call, int64_t at_most = 4) {
  const int64_t vectors = (call.d + 7) / 8;
  const bool light = call.types == StepTypes::bf16_bf16 && !call.layer && at_most > 2;
  const int64_t most = !light ? 2 : call.x == nullptr ? 4 : vectors <= 96 ? 3 : 2;
  int warps = 1;
  while (warps < kStepThreads / 32 && vectors > 32 * warps * most) warps *= 2;
  const int64_t each = (vectors + 32 * warps - 1) / (32 * warps);
  return {32 * warps, static_cast<int>(each <= 2 ? 2 : light && each <= 4 ? each : 8)};
}
inline bool step_sizes_fit(const StepCuda& call) {
  return call.d >= 8 && call.d % 8 == 0 && call.d <= 8 * 8 * kStepThreads && call.width <= call.d &&
         call.samples >= 1 && call.rows % call.samples == 0;
}

/// Calls f(layer, vectors, warps) with integral constants, for the triples that exist for stream type S: warps are
/// fixed for bf16 streams and rows of up to four warps.
template <class S, class F>
cudaError_t with_step_shape(const StepCuda& call, const StepShape& shape, const F& f) {
  using std::integral_constant;
  auto with_warps = [&](auto layer, auto vectors) {
    if constexpr (std::is_same_v<S, bfloat> && decltype(vectors)::value < 8) {
      if (shape.row_threads == 32) return f(layer, vectors, integral_constant<int, 1>{});
      if (shape.row_threads == 64) return f(layer, vectors, integral_constant<int, 2>{});
      if (shape.row_threads == 128) return f(layer, vectors, integral_constant<int, 4>{});
    }
    return f(layer, vectors, integral_constant<int, 0>{});
  };
  auto with_vectors = [&](auto layer) {
    if constexpr (std::is_same_v<S, bfloat> && !decltype(layer)::value) {
      if (shape.vectors == 3) return with_warps(layer, integral_constant<int, 3>{});
      if (shape.vectors == 4) return with_warps(layer, integral_constant<int, 4>{});
    }
    return shape.vectors == 2 ? with_warps(layer, integral_constant<int, 2>{})
                              : with_warps(layer, integral_constant<int, 8>{});
  };
  return call.layer ? with_vectors(std::true_type{}) : with_vectors(std::false_type{});
}

/// Parts to cut the rows in (a multiple of samples): as many as there are blocks running at once, none of them empty.
template <class K>
cudaError_t parts_for(K kernel, const StepCuda& call, const StepShape& shape, size_t shared, int* out) {
  int processors = 0, each = 0;
  if (const cudaError_t e = count_processors(&processors); e != cudaSuccess) return e;
  if (const cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kStepThreads, shared);
      e != cudaSuccess)
    return e;
  const int64_t resident = static_cast<int64_t>(processors) * (each > 0 ? each : 1), wanted = resident / call.samples;
  const int64_t at_once = kStepThreads / shape.row_threads, per_sample = call.rows / call.samples;
  const int64_t useful = (per_sample + at_once - 1) / at_once;
  *out = static_cast<int>((wanted < 1 ? 1 : wanted < useful ? wanted : useful < 1 ? 1 : useful) * call.samples);
  return cudaSuccess;
}

}  // namespace siamese::kernels
