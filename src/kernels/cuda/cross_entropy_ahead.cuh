// Cross entropy and its gradient where two rows of bf16 fit into shared memory: blocks stay on their multiprocessors,
// and the copy engine brings rows while the ones before are at work, so that reading never pauses. A row waits in one
// of two places in shared memory; the threads take it into registers, and its place is free for the row after the next
// one.
#pragma once

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {

constexpr int kAheadThreads = 1024, kAheadVectors = 7;  // vectors of eight values that a thread holds of a row

/// In shared memory: two rows, what each warp knows of either, and when a row is there.
struct AheadMemory {
  static constexpr int kWarps = kAheadThreads / 32;
  static constexpr int64_t bytes(int64_t vectors) { return 2 * (16 * vectors + kWarps * sizeof(Softmax) + 8); }

  uint8_t* memory;
  int vectors;
  __device__ uint4* row(int place) const { return reinterpret_cast<uint4*>(memory) + place * vectors; }
  /// Of two rows in turns: one barrier of the block a row is enough.
  __device__ Softmax* parts(int place) const { return reinterpret_cast<Softmax*>(row(2)) + place * kWarps; }
  __device__ uint32_t arrived(int place) const { return hopper::shared_address(parts(2)) + place * 8; }
};

/// exp(x - m) for a row's values x, up to a factor that is the same for all of them. Near 0 that is 2^(x·log2(e) -
/// shift) with shift what m·log2(e) is rounded to, one instruction less a value than exp_from; far from it the
/// rounding, 2^-12 of a shift of 4096, would be no small error.
class Exponentials {
 public:
  __device__ __forceinline__ explicit Exponentials(float m) : m_(m), shift_(m * kLog2e), near_(fabsf(m) < 4096.f) {}

  /// use(u, i, a, b) for the two values in the i-th word of the u-th of `raw`, of those that has(u).
  template <class Has, class Use>
  __device__ __forceinline__ void each(const uint4 (&raw)[kAheadVectors], const Has& has, const Use& use) const {
    if (near_)
      each(raw, has, use, [this](float x) { return near_of(x); });
    else
      each(raw, has, use, [this](float x) { return exp_from(x, m_); });
  }
  __device__ __forceinline__ float of(float x) const { return near_ ? near_of(x) : exp_from(x, m_); }
  /// Times this they are exp(x - m): 2^d = 1 + d·ln(2) + …, d what the rounding took, up to 2^-12.
  __device__ __forceinline__ float factor() const {
    return near_ ? 1.f - 0.693147181f * fmaf(m_, kLog2e, -shift_) : 1.f;
  }

 private:
  __device__ __forceinline__ float near_of(float x) const { return exp2_fast(fmaf(x, kLog2e, -shift_)); }
  template <class Has, class Use, class Of>
  static __device__ __forceinline__ void each(const uint4 (&raw)[kAheadVectors], const Has& has, const Use& use,
                                              const Of& of) {
#pragma unroll
    for (int u = 0; u < kAheadVectors; ++u) {
      if (!has(u)) continue;
      const uint32_t words[4] = {raw[u].x, raw[u].y, raw[u].z, raw[u].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) use(u, i, of(hopper::low(words[i])), of(hopper::high(words[i])));
    }
  }

  float m_, shift_;
  bool near_;
};

static __global__ void __launch_bounds__(kAheadThreads, 1) cross_entropy_ahead_kernel(const CrossEntropyCuda p) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  const int vectors = static_cast<int>(p.vocab) / 8, thread = static_cast<int>(threadIdx.x);
  const AheadMemory memory{dynamic_bytes, vectors};
  const int warp = thread / 32, lane = thread % 32;
  const int64_t stride = gridDim.x;
  uint4* const logits = static_cast<uint4*>(p.logits);
  auto fetch = [&](int64_t row, int place) {
    const unsigned bytes = static_cast<unsigned>(vectors) * 16;
    hopper::barrier_expect(memory.arrived(place), bytes);
    copy_bulk(hopper::shared_address(memory.row(place)), logits + row * vectors, bytes, memory.arrived(place));
  };
  if (thread == 0) {
    for (int place = 0; place < 2; ++place) hopper::barrier_init(memory.arrived(place), 1);
    hopper::barrier_init_done();
    for (int place = 0; place < 2; ++place)
      if (const int64_t row = blockIdx.x + place * stride; row < p.rows) fetch(row, place);
  }
  const auto has = [&](int u) { return u * kAheadThreads + thread < vectors; };
  const float count = *p.count;
  int64_t wanted = p.targets[blockIdx.x];
  __syncthreads();

  int place = 0;
  uint32_t phase = 0;
  for (int64_t row = blockIdx.x; row < p.rows; row += stride) {
    const bool counts = wanted != p.ignore;
    const int target = counts && wanted >= 0 && wanted < p.vocab ? static_cast<int>(wanted) : -1;
    if (row + stride < p.rows) wanted = p.targets[row + stride];
    hopper::barrier_wait(memory.arrived(place), phase);
    uint4 raw[kAheadVectors];
    __nv_bfloat162 most = __floats2bfloat162_rn(kNone, kNone);
#pragma unroll
    for (int u = 0; u < kAheadVectors; ++u) {
      if (!has(u)) continue;
      raw[u] = memory.row(place)[u * kAheadThreads + thread];
      const uint32_t words[4] = {raw[u].x, raw[u].y, raw[u].z, raw[u].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) most = __hmax2(most, reinterpret_cast<const __nv_bfloat162&>(words[i]));
    }
    const uint32_t both = reinterpret_cast<const uint32_t&>(most);
    Softmax s{fmaxf(hopper::low(both), hopper::high(both)), 0.f};
    const Exponentials own(reference_of(s.max));
    own.each(raw, has, [&](int, int, float a, float b) { s.sum += a + b; });
    s.sum *= own.factor();
    // The thread that has the target sees to it, apart from the others.
    const bool has_target = target >= 0 && target / 8 % kAheadThreads == thread;
    const float right = has_target ? to_float(reinterpret_cast<const bfloat*>(memory.row(place))[target]) : 0.f;
    s = warp_merge(s);
    if (lane == 0) memory.parts(place)[warp] = s;
    hopper::fence_for_copies();  // what was read here comes before what the copy engine writes here
    __syncthreads();
    if (thread == 0 && row + 2 * stride < p.rows) fetch(row + 2 * stride, place);
    s = warp_merge(memory.parts(place)[lane]);
    s.sum = __shfl_sync(0xffffffffU, s.sum, 0);  // merge(a, b) and merge(b, a) may differ in the last bit

    const float lse = s.max + logf(s.sum), hit = counts ? p.scale / count : 0.f;
    const Exponentials all(s.max);
    const float factor = (hit + p.z_factor * lse) / s.sum * all.factor();
    uint32_t words[4];
    all.each(raw, has, [&](int u, int i, float a, float b) {
      words[i] = hopper::pack(a * factor, b * factor);
      if (i == 3)
        logits[row * vectors + u * kAheadThreads + thread] = make_uint4(words[0], words[1], words[2], words[3]);
    });
    if (has_target) {
      const float g = all.of(right) * factor - hit;
      reinterpret_cast<bfloat*>(logits + row * vectors)[target] = from_float<bfloat>(g);
      p.losses[row] = lse - right < 0.f ? 0.f : lse - right;  // where one value is all of the sum, by its roundings
    }
    if (thread == 0) {
      p.squares[row] = lse * lse;
      if (target < 0) p.losses[row] = counts ? __uint_as_float(0x7fffffffU) : 0.f;
    }
    place ^= 1;
    if (place == 0) phase ^= 1;
  }
#endif
}

}  // namespace siamese::kernels
