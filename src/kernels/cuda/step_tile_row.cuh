// Shared by the tile kernels of the stream step: sums over a row's threads, and the vectors [d] of the norms.
#pragma once

#include "kernels/cuda/step_tile.cuh"

namespace siamese::kernels::tile {

/// Replaces v[0] by the warp's sum of v[lane / (32 / N)]: N sums in N - 1 + log2(32 / N) shuffles.
template <int N, int offset = 16, int M>
__device__ __forceinline__ void fold(float (&v)[M], int lane) {
  if constexpr (N > 1) {
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float send = upper ? v[i] : v[i + N / 2], keep = upper ? v[i + N / 2] : v[i];
      v[i] = keep + __shfl_xor_sync(0xffffffffU, send, offset);
    }
    fold<N / 2, offset / 2>(v, lane);
  } else if constexpr (offset > 0) {
    v[0] += __shfl_xor_sync(0xffffffffU, v[0], offset);
    fold<1, offset / 2>(v, lane);
  }
}

/// Sums over a row's threads, after which all of them have read what they did before. Across warps two buffers in turn:
/// one barrier of the group suffices. A tile has one sum or two, so that a buffer always holds the same number of
/// values, and what it has of warps that do not exist stays 0.
template <bool kWarp>
class Exchange {
 public:
  __device__ Exchange(char* shared, int values, const Place& at) : at_(at) {
    stride_ = Layout::padded(at.warps) * values;
    buffer_ = reinterpret_cast<float*>(shared) + 2 * at.group * stride_;
    if constexpr (!kWarp)
      for (int i = at.thread; i < 2 * stride_; i += at.threads) buffer_[i] = 0.f;  // rows of warps that do not exist
  }
  template <int N>
  __device__ __forceinline__ void sum(float (&v)[N]) {
    static_assert((N & (N - 1)) == 0 && N <= 32);
    fold<N>(v, at_.lane);
    if constexpr (kWarp) {
      const float mine = v[0];
#pragma unroll
      for (int n = 0; n < N; ++n) v[n] = N == 1 ? mine : __shfl_sync(0xffffffffU, mine, n * (32 / N));
      __syncwarp();
    } else {
      turn_ ^= 1;
      float* buffer = buffer_ + turn_ * stride_;
      if (at_.lane % (32 / N) == 0) buffer[at_.warp * N + at_.lane / (32 / N)] = v[0];
      group_sync();
      if constexpr (N <= 2) {  // the fewest steps after one another
#pragma unroll
        for (int n = 0; n < N; ++n) v[n] = 0.f;
#pragma unroll 1
        for (int w = 0; w < at_.warps; w += 4) {
          float parts[4 * N];
#pragma unroll
          for (int i = 0; i < N; ++i)
            *reinterpret_cast<float4*>(parts + 4 * i) = *reinterpret_cast<const float4*>(buffer + w * N + 4 * i);
#pragma unroll
          for (int i = 0; i < 4 * N; ++i) v[i % N] += parts[i];
        }
      } else {  // the fewest instructions: lane l has value l % N of every 32/N-th warp; then those of a value add up
        const int count = at_.warps * N;
        float mine = at_.lane < count ? buffer[at_.lane] : 0.f;
#pragma unroll 1
        for (int i = at_.lane + 32; i < count; i += 32) mine += buffer[i];
#pragma unroll
        for (int offset = N; offset < 32; offset *= 2) mine += __shfl_xor_sync(0xffffffffU, mine, offset);
#pragma unroll
        for (int n = 0; n < N; ++n) v[n] = __shfl_sync(0xffffffffU, mine, n);
      }
    }
  }
  __device__ __forceinline__ void group_sync() const {
    if constexpr (kWarp) {
      __syncwarp();
    } else {
      hopper::named_sync(at_.group + 1, at_.threads);
    }
  }

 private:
  Place at_;
  float* buffer_;
  int stride_, turn_ = 0;
};

/// Where column c lies in a vector [d] of floats kept as fours side by side over the threads, so that no two threads
/// meet in a bank.
template <int Q>
__device__ __forceinline__ int spread(int c, int threads) {
  return (((c / (Q * threads)) * (Q / 4) + c % Q / 4) * threads + c / Q % threads) * 4 + c % 4;
}

/// A number of a bf16 vector, or `otherwise` where there is none.
__device__ __forceinline__ float value_at(const void* from, int64_t c, float otherwise) {
  return from == nullptr ? otherwise : to_float(static_cast<const bfloat*>(from)[c]);
}

/// N vectors [d] in fp32.
template <class C, int N>
class Gains {
 public:
  __device__ Gains(char* table, const Place& at)
      : table_(reinterpret_cast<float*>(table)), d_(at.threads * C::E), threads_(at.threads) {}
  /// By all threads of the block: the first M vectors, or those of `which`, at column c from values(c, v). All are read
  /// before any is written: one way to memory and back, not M.
  template <int M, class F>
  __device__ __forceinline__ void fill(const Place& at, const F& values) {
    int which[M];
#pragma unroll
    for (int n = 0; n < M; ++n) which[n] = n;
    fill<M>(which, at, values);
  }
  template <int M, class F>
  __device__ __forceinline__ void fill(const int (&which)[M], const Place& at, const F& values) {
#pragma unroll 1
    for (int c = at.group * at.threads + at.thread; c < d_; c += at.groups * at.threads) {
      float v[M];
      values(c, v);
      float* to = table_ + spread<C::Q>(c, threads_);
#pragma unroll
      for (int n = 0; n < M; ++n) to[which[n] * d_] = v[n];
    }
  }
  /// After a barrier of the block.
  __device__ __forceinline__ void settle(const Place& at) {
    mine_ = table_ + 4 * at.thread;
    if constexpr (C::registers) {
#pragma unroll
      for (int n = 0; n < N; ++n) from_table(n, held_[n]);
    }
  }
  __device__ __forceinline__ void get(int n, float (&v)[C::E]) const {
    if constexpr (C::registers) {
#pragma unroll
      for (int i = 0; i < C::E; ++i) v[i] = held_[n][i];
    } else {
      from_table(n, v);
    }
  }

 private:
  __device__ __forceinline__ void from_table(int n, float (&v)[C::E]) const {
#pragma unroll
    for (int h = 0; h < C::E / 4; ++h) {
      const float4 f = *reinterpret_cast<const float4*>(mine_ + n * d_ + 4 * h * threads_);
      v[4 * h] = f.x, v[4 * h + 1] = f.y, v[4 * h + 2] = f.z, v[4 * h + 3] = f.w;
    }
  }
  float *table_, *mine_;
  int d_, threads_;
  float held_[C::registers ? N : 1][C::E];
};

/// DropPath's factor of a row.
__device__ __forceinline__ float row_scale_of(const StepCuda& p, int64_t row) {
  return p.row_scale[static_cast<unsigned>(row) / static_cast<unsigned>(p.rows / p.samples)];
}

/// DropPath on row r of a tile.
template <int E, class T>
__device__ __forceinline__ void drop(const StepCuda& p, const T& tile, int r, float (&v)[E]) {
  if (p.row_scale == nullptr) return;
  const float scale = row_scale_of(p, tile.row() + r);
#pragma unroll
  for (int i = 0; i < E; ++i) v[i] *= scale;
}

/// v ⊙ vector n
template <int E, class G>
__device__ __forceinline__ void times(float (&v)[E], const G& gains, int n) {
  float by[E];
  gains.get(n, by);
#pragma unroll
  for (int i = 0; i < E; ++i) v[i] *= by[i];
}

/// The vectors that depend on the sample, by all threads of the block: γ(1 + scale), β(1 + scale) + shift of the last
/// norm, and the gate times the row scale.
template <class G>
__device__ __forceinline__ void fill_of_sample(G& gains, const StepCuda& p, int sample, const void* gain,
                                               const void* bias, int to_gain, int to_bias, int to_gate,
                                               const Place& at) {
  const int64_t first = sample * p.sample_stride;
  const float row_scale = p.row_scale != nullptr ? p.row_scale[sample] : 1.f;
  __syncthreads();  // nobody reads the last sample's any more
  gains.template fill<3>({to_gain, to_bias, to_gate}, at, [&](int c, float(&v)[3]) {
    const float g = value_at(gain, c, 1.f), b = value_at(bias, c, 0.f), scale = 1.f + value_at(p.scale, first + c, 0.f),
                shift = value_at(p.shift, first + c, 0.f), gate = value_at(p.gate, first + c, 1.f);
    v[0] = g * scale, v[1] = b * scale + shift, v[2] = row_scale * gate;
  });
  __syncthreads();
  gains.settle(at);
}

}  // namespace siamese::kernels::tile
