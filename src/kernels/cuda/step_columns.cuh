// Column sums of the stream step's backward pass, stage one: what a block sums up while it walks over its rows.
#pragma once

#include "kernels/cuda/step_common.cuh"

namespace siamese::kernels {

__host__ __device__ constexpr int step_columns(bool layer, bool sample) { return (layer ? 6 : 3) + (sample ? 3 : 0); }

/// A warp's column sums in shared memory: in registers they would leave room for half as many warps. Halves of a
/// vector lie side by side over the lanes, so that no two lanes meet in a bank. The longest rows (V = 8) do not fit
/// there and lie in local memory.
template <int C, int V>
class ColumnSumsOfWarp {
 public:
  static constexpr bool kShared = V < 8;
  static constexpr int kFloats = C * V * 256;

  __device__ explicit ColumnSumsOfWarp(float* shared) {
    mine_ = shared + static_cast<int>(threadIdx.x) / 32 * kFloats + static_cast<int>(threadIdx.x) % 32 * 4;
    for (int i = 0; i < 2 * C * V; ++i) {
      if (kShared) *reinterpret_cast<float4*>(mine_ + i * 128) = make_float4(0.f, 0.f, 0.f, 0.f);
      if (!kShared && i < C * V) local_[i % kLocal] = zero8();
    }
  }
  __device__ __forceinline__ void add(int c, int k, const Float8& v) {
    if (!kShared) {
      siamese::kernels::add(local_[(c * V + k) % kLocal], v);
      return;
    }
    float4* at = reinterpret_cast<float4*>(mine_ + (c * V + k) * 256);
    float4 low = at[0], high = at[32];
    low.x += v.v[0], low.y += v.v[1], low.z += v.v[2], low.w += v.v[3];
    high.x += v.v[4], high.y += v.v[5], high.z += v.v[6], high.w += v.v[7];
    at[0] = low, at[32] = high;
  }
  /// The block's sums: the warps that shared columns are added in order. All threads call it.
  __device__ void flush(const float* shared, int row_threads, int rows_at_once, int d, float* out) const {
    __syncthreads();
    const int warps = row_threads / 32;
    for (int vector = static_cast<int>(threadIdx.x); vector < C * V * row_threads; vector += kStepThreads) {
      const int c = vector / (V * row_threads), k = vector / row_threads % V, lane = vector % row_threads;
      const int column = 8 * (lane + k * row_threads);
      if (column >= d) continue;
      Float8 sum = zero8();
      if (!kShared) {  // one row at a time: lane is this thread
        sum = local_[(c * V + k) % kLocal];
      } else {
        for (int s = 0; s < rows_at_once; ++s) {
          const float* from = shared + (s * warps + lane / 32) * kFloats + (c * V + k) * 256 + lane % 32 * 4;
#pragma unroll
          for (int i = 0; i < 4; ++i) sum.v[i] += from[i], sum.v[4 + i] += from[128 + i];
        }
      }
      store8(out + static_cast<int64_t>(c) * d + column, sum);
    }
  }

 private:
  static constexpr int kLocal = kShared ? 1 : C * V;
  float* mine_;
  Float8 local_[kLocal];
};

}  // namespace siamese::kernels
