// Shared by the kernels that give a block a token: a thread holds V pieces of 8 neighbouring columns of the rows, the
// next token's rows are on their way to shared memory, and sums over a row go to the lanes of every warp.
#pragma once

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {

constexpr int kHyperThreads = 256;  // largest block: d = 2048 with one piece a thread

/// The columns of a thread: piece k begins at at[k].
template <int V>
struct Columns {
  int at[V];
  bool inside[V];
  /// Of rows as wide as the threads' columns together.
  __device__ Columns() {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      at[k] = 8 * static_cast<int>(threadIdx.x + k * blockDim.x);
      inside[k] = true;
    }
  }
  __device__ explicit Columns(int d) : Columns() {
#pragma unroll
    for (int k = 0; k < V; ++k) inside[k] = at[k] < d;
  }
};

/// A thread's columns of a row in fp32, and as they are in memory.
template <int V>
struct Wide {
  Float8 part[V];
};
template <class S, int V>
struct Pieces {
  Raw8<S> part[V];
};

template <int V>
__device__ __forceinline__ Wide<V> filled(float value) {
  Wide<V> w;
#pragma unroll
  for (int k = 0; k < V; ++k) w.part[k] = fill8(value);
  return w;
}
template <class S, int V>
__device__ __forceinline__ Wide<V> widen(const Pieces<S, V>& p) {
  Wide<V> w;
#pragma unroll
  for (int k = 0; k < V; ++k) w.part[k] = widen(p.part[k]);
  return w;
}
template <class S, int V>
__device__ __forceinline__ Pieces<S, V> narrow(const Wide<V>& w, S type) {
  Pieces<S, V> p;
#pragma unroll
  for (int k = 0; k < V; ++k) p.part[k] = narrow(w.part[k], type);
  return p;
}
/// Of a row [d] that may be absent.
template <class S, int V>
__device__ __forceinline__ Wide<V> load(const void* row, const Columns<V>& c, float otherwise) {
  Wide<V> w = filled<V>(otherwise);
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (row != nullptr && c.inside[k]) w.part[k] = load8(static_cast<const S*>(row) + c.at[k]);
  return w;
}
template <class S, int V>
__device__ __forceinline__ void put(S* row, const Columns<V>& c, const Pieces<S, V>& p) {
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (c.inside[k]) put8(row + c.at[k], p.part[k]);
}
template <class S, int V>
__device__ __forceinline__ void store(S* row, const Columns<V>& c, const Wide<V>& w) {
  put(row, c, narrow(w, S{}));
}

/// sum += a·x
template <int V>
__device__ __forceinline__ void add_scaled(Wide<V>& sum, float a, const Wide<V>& x) {
#pragma unroll
  for (int k = 0; k < V; ++k) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum.part[k].v[i] += a * x.part[k].v[i];
  }
}
template <int V>
__device__ __forceinline__ float dot(const Wide<V>& a, const Wide<V>& b) {
  float sum = 0.f;
#pragma unroll
  for (int k = 0; k < V; ++k) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a.part[k].v[i] * b.part[k].v[i];
  }
  return sum;
}

/// R rows of the next token on their way to shared memory, threads side by side. A thread reads only what it asked for
/// itself, so no barrier is needed.
template <class S, int R, int V>
class RowStage {
 public:
  __host__ __device__ static constexpr size_t bytes(int threads) {
    return sizeof(Raw8<S>) * R * V * static_cast<size_t>(threads);
  }
  __device__ explicit RowStage(void* memory) : memory_(static_cast<Raw8<S>*>(memory) + threadIdx.x) {}

  /// The thread's columns of the row that begins at `from + first`; zeros where they are not `real`, not inside or
  /// `from` is absent. `valid` is any readable address.
  __device__ void ask(int row, const void* from, int64_t first, bool real, const Columns<V>& c,
                      const void* valid) const {
    const char* const begin = static_cast<const char*>(from) + first * static_cast<int64_t>(sizeof(S));
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const bool exists = real && from != nullptr && c.inside[k];
      const char* const source =
          exists ? begin + c.at[k] * static_cast<int>(sizeof(S)) : static_cast<const char*>(valid);
      char* const to = reinterpret_cast<char*>(slot(row, k));
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(Raw8<S>)); i += 16) copy_async16(to + i, source + i, exists);
    }
  }
  __device__ void wait() const { copy_async_wait(); }
  __device__ Pieces<S, V> take(int row) const {
    Pieces<S, V> p;
#pragma unroll
    for (int k = 0; k < V; ++k) p.part[k] = *slot(row, k);
    return p;
  }

 private:
  __device__ Raw8<S>* slot(int row, int k) const { return memory_ + (row * V + k) * blockDim.x; }
  Raw8<S>* memory_;
};

/// Smallest power of two that is not below N.
template <int N>
constexpr int kPowerOfTwo = 2 * kPowerOfTwo<(N + 1) / 2>;
template <>
inline constexpr int kPowerOfTwo<1> = 1;

/// Value j of the warp's sums of v[0 … R-1] for the lanes from j·32/R on; R is a power of two. Each exchange halves the
/// values a lane is responsible for: 31 shuffles for 32 sums, where one after the other takes 160.
template <int R, int kMask = 16>
__device__ __forceinline__ float warp_sums(float (&v)[R]) {
  static_assert(R >= 1 && R <= 32 && (R & (R - 1)) == 0);
  if constexpr (R == 1) {
#pragma unroll
    for (int mask = kMask; mask > 0; mask /= 2) v[0] += __shfl_xor_sync(0xffffffffU, v[0], mask);
    return v[0];
  } else {
    const bool upper = (threadIdx.x & static_cast<unsigned>(kMask)) != 0;
    float half[R / 2];
#pragma unroll
    for (int j = 0; j < R / 2; ++j) {
      const float below = v[j], above = v[j + R / 2];
      half[j] = (upper ? above : below) + __shfl_xor_sync(0xffffffffU, upper ? below : above, kMask);
    }
    return warp_sums<R / 2, kMask / 2>(half);
  }
}

/// Sums over the block. Two buffers in turn: one barrier a call suffices. A kernel has one object for each R.
template <int R>
class BlockSums {
 public:
  /// In every warp lane j < R gets the sum of v[j] over the block's threads.
  __device__ float operator()(float (&v)[R]) {
    __shared__ float buffer[2][kHyperThreads / 32][R];
    const int lane = static_cast<int>(threadIdx.x) & 31, warps = static_cast<int>(blockDim.x) / 32;
    const float mine = warp_sums(v);
    if (lane % (32 / R) == 0) buffer[turn_][threadIdx.x / 32][lane / (32 / R)] = mine;
    __syncthreads();
    float sum = 0.f;
    if (lane < R)
      for (int w = 0; w < warps; ++w) sum += buffer[turn_][w][lane];
    turn_ ^= 1;
    return sum;
  }

 private:
  int turn_ = 0;
};

__device__ __forceinline__ float from_lane(float v, int lane) { return __shfl_sync(0xffffffffU, v, lane); }

}  // namespace siamese::kernels
