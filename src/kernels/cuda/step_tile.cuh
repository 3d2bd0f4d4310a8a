// Shared by the tile kernels of the stream step: where threads and memory lie, how rows come and go.
//
// A block is G groups of T threads and stays on its multiprocessor until all rows are done. A group works on tiles of R
// whole rows, each thread on the same E = Q·V columns of all of them (d = T·E), so that gains and column sums can stay
// in registers. Tiles are fetched into shared memory by the copy engine, S of them ahead: what limits the row-a-warp
// kernels (step_common.cuh) is that registers cannot hold enough reads on their way.
#pragma once

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/stream_step.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels::tile {

/// The forms training runs through. pre: y alone, N_y; whole: both streams, N_x, N_y, and N_in or not; mixed: both, c1
/// and N_y (step_tile_forward.cuh, step_tile_backward.cuh). post: x alone, N_x; dual: the same, and y, which is not
/// read (step_tile_post.cuh). sandwich: y alone, N_r, and N_y or not (step_tile_sandwich.cuh).
enum class Form { pre, whole, mixed, post, dual, sandwich };

/// V vectors of Q neighbouring columns a thread, Q·T apart; R rows a tile; gains in registers or in shared memory; at
/// most so many threads and stages. kWarp: a row belongs to one warp (T = 32).
template <int kQ, int kV, int kR, bool kHeld, int kMost, int kAhead, bool kOneWarp = false>
struct Config {
  static constexpr int Q = kQ, V = kV, R = kR, E = kQ * kV, threads = kMost, stages = kAhead;
  static constexpr bool registers = kHeld, warp = kOneWarp;
};

/// Tiles ahead; where rows belong to samples, the tiles of a part and the parts of a sample.
struct Plan {
  int stages = 0, tiles = 0, parts = 0;
};

struct Place {
  int thread, group, threads, groups, lane, warp, warps;
  /// `fixed`: threads of a row where they are known. What is one number in a warp is taken from one lane: the compiler
  /// then keeps it, and what follows from it, once a warp.
  __device__ explicit Place(int fixed = 0)
      : thread(static_cast<int>(threadIdx.x)),
        group(__shfl_sync(0xffffffffU, static_cast<int>(threadIdx.y), 0)),
        threads(fixed > 0 ? fixed : static_cast<int>(blockDim.x)),
        groups(static_cast<int>(blockDim.y)),
        lane(thread % 32),
        warp(fixed == 32 ? 0 : __shfl_sync(0xffffffffU, thread / 32, 0)),
        warps(threads / 32) {}
};

/// What a kernel keeps in shared memory. inputs: rows fetched; numbers: statistics of a row; gains: vectors [d];
/// values: the most that a row's threads exchange at once; columns: column sums, which take the tiles' place at the
/// end; samples: those of a sample, which have a place of their own.
struct Needs {
  int inputs, numbers, gains, values, columns, samples = 0;
};
/// Byte offsets of the shared memory's parts, barriers first; `stage` the bytes of one tile, `group` those of a group.
struct Layout {
  int exchange, gains, samples, ring, stage, group, bytes;

  __host__ __device__ Layout(const Needs& needs, int d, int threads, int groups, int stages, int R)
      : exchange(up(groups * stages * 8)),
        gains(exchange + up(groups * 2 * padded(threads / 32) * needs.values * R * 4)),
        samples(gains + needs.gains * d * 4),
        ring(samples + needs.samples * d * 4),
        stage(needs.inputs * R * d * 2 + up(needs.numbers * R * 4)) {
    const int sums = needs.columns * d * 4, tiles = stages * stage;
    group = sums > tiles ? sums : tiles;
    bytes = ring + groups * group;
  }
  __host__ __device__ static constexpr int up(int bytes) { return (bytes + 127) / 128 * 128; }
  __host__ __device__ static constexpr int padded(int warps) { return (warps + 3) / 4 * 4; }
};

/// A thread's columns of a row as they are in memory.
template <int E>
struct Words {
  uint32_t w[E / 2];
};
template <class C>
__device__ __forceinline__ Words<C::E> read(const char* p, int threads) {
  Words<C::E> r;
#pragma unroll
  for (int k = 0; k < C::V; ++k) {
    const char* from = p + k * 2 * C::Q * threads;
    if constexpr (C::Q == 8) {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      r.w[4 * k] = v.x, r.w[4 * k + 1] = v.y, r.w[4 * k + 2] = v.z, r.w[4 * k + 3] = v.w;
    } else {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      r.w[2 * k] = v.x, r.w[2 * k + 1] = v.y;
    }
  }
  return r;
}
template <class C>
__device__ __forceinline__ void write(char* p, const Words<C::E>& r, int threads) {
#pragma unroll
  for (int k = 0; k < C::V; ++k) {
    char* to = p + k * 2 * C::Q * threads;
    if constexpr (C::Q == 8) {
      *reinterpret_cast<uint4*>(to) = make_uint4(r.w[4 * k], r.w[4 * k + 1], r.w[4 * k + 2], r.w[4 * k + 3]);
    } else {
      *reinterpret_cast<uint2*>(to) = make_uint2(r.w[2 * k], r.w[2 * k + 1]);
    }
  }
}
template <int E>
__device__ __forceinline__ void widen(float (&v)[E], const Words<E>& r) {
#pragma unroll
  for (int i = 0; i < E / 2; ++i) {
    v[2 * i] = __uint_as_float(r.w[i] << 16);
    v[2 * i + 1] = __uint_as_float(r.w[i] & 0xffff0000U);
  }
}
template <int E>
__device__ __forceinline__ Words<E> narrow(const float (&v)[E]) {
  Words<E> r;
#pragma unroll
  for (int i = 0; i < E / 2; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
    r.w[i] = *reinterpret_cast<const uint32_t*>(&pair);
  }
  return r;
}

/// A group's way through the tiles: every so-many-th of all. Where rows belong to samples (adaLN), a block takes whole
/// parts, none of which crosses a sample, and its groups share each: every thread meets the same parts in order.
template <bool kSample>
struct Walk {
  int tile, part, end, each;  // end of the part, tiles of one

  __device__ Walk(int tiles_each, const Place& at)
      : part(static_cast<int>(blockIdx.x)), end((part + 1) * tiles_each), each(tiles_each) {
    tile = kSample ? part * each + at.group : part + static_cast<int>(gridDim.x) * at.group;
  }
  __device__ __forceinline__ void next(const Place& at) {
    if constexpr (!kSample) {
      tile += static_cast<int>(gridDim.x) * at.groups;
    } else if ((tile += at.groups) >= end) {
      part += static_cast<int>(gridDim.x);
      end = (part + 1) * each;
      tile = part * each + at.group;
    }
  }
};

/// The tiles of a group: tile i of a block's group is fetched into stage i % S. One warp does it. Inputs of the mask
/// kMaybe may be null: zeros.
template <class C, int K, int N, unsigned kMaybe, bool kSample>
class Tiles {
 public:
  /// Statistic n of a row is numbers[(first + step·n)·rows + row]; no numbers: none are read.
  __device__ Tiles(char* memory, const Layout& lie, int stages, int64_t rows, int tiles_each, const void* const* from,
                   const float* numbers, int first, int step, const Place& at)
      : at_(at),
        rows_(rows),
        numbers_(numbers),
        first_(first),
        step_(step),
        stages_(stages),
        stage_bytes_(lie.stage),
        now_(tiles_each, at),
        ahead_(tiles_each, at) {
    static_assert(N * C::R <= 32);
    row_bytes_ = 2 * at.threads * C::E;
    ring_ = memory + lie.ring + at.group * lie.group;
    full_ = hopper::shared_address(memory) + static_cast<unsigned>(at.group * stages * 8);
    count_ = static_cast<int>(rows / C::R);
#pragma unroll
    for (int k = 0; k < K; ++k) from_[k] = static_cast<const char*>(from[k]);
    if (at.thread == 0) {
      for (int s = 0; s < stages; ++s) hopper::barrier_init(barrier(s), 33);
      hopper::barrier_init_done();
    }
    __syncthreads();
    for (int s = 0; s < stages && ahead_.tile < count_; ++s) fetch(s);
  }
  __device__ __forceinline__ bool more() const { return now_.tile < count_; }
  __device__ __forceinline__ int part() const { return now_.part; }
  __device__ __forceinline__ void wait() const { hopper::barrier_wait(barrier(stage_), phase_); }
  /// This thread's columns of row r of input k, and the row's statistic n.
  __device__ __forceinline__ Words<C::E> get(int k, int r) const {
    if ((kMaybe >> k & 1) != 0 && from_[k] == nullptr) return Words<C::E>{};
    return read<C>(here() + (k * C::R + r) * row_bytes_ + 2 * C::Q * at_.thread, at_.threads);
  }
  __device__ __forceinline__ float number(int n, int r) const {
    return reinterpret_cast<const float*>(here() + K * C::R * row_bytes_)[n * C::R + r];
  }
  __device__ __forceinline__ int64_t row() const { return static_cast<int64_t>(now_.tile) * C::R; }
  __device__ __forceinline__ void put(void* to, int r, const Words<C::E>& v) const {
    write<C>(static_cast<char*>(to) + (row() + r) * row_bytes_ + 2 * C::Q * at_.thread, v, at_.threads);
  }
  __device__ __forceinline__ void put(void* to, int r, const float (&v)[C::E]) const { put(to, r, narrow(v)); }
  /// All threads of the group have read this tile: another one takes its place.
  __device__ __forceinline__ void refill() {
    if (ahead_.tile < count_) fetch(stage_);
  }
  __device__ __forceinline__ void next() {
    now_.next(at_);
    if (++stage_ == stages_) stage_ = 0, phase_ ^= 1;
  }

 private:
  __device__ __forceinline__ uint32_t barrier(int s) const { return full_ + 8 * static_cast<unsigned>(s); }
  __device__ __forceinline__ const char* here() const { return ring_ + stage_ * stage_bytes_; }
  /// The next tile ahead into stage s.
  __device__ __forceinline__ void fetch(int s) {
    const int64_t row = static_cast<int64_t>(ahead_.tile) * C::R;
    ahead_.next(at_);
    if (at_.warp != 0) return;
    char* to = ring_ + s * stage_bytes_;
    const int bytes = C::R * row_bytes_;
    if (at_.lane < N * C::R && numbers_ != nullptr)
      copy_async4(to + K * bytes + 4 * at_.lane,
                  numbers_ + (first_ + step_ * (at_.lane / C::R)) * rows_ + row + at_.lane % C::R);
    copy_async_arrive(barrier(s));
    if (at_.lane != 0) return;
    auto there = [&](int k) { return (kMaybe >> k & 1) == 0 || from_[k] != nullptr; };
    int count = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) count += there(k) ? 1 : 0;
    hopper::barrier_expect(barrier(s), static_cast<unsigned>(count * bytes));
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (there(k))
        copy_bulk(hopper::shared_address(to + k * bytes), from_[k] + row * row_bytes_, static_cast<unsigned>(bytes),
                  barrier(s));
  }
  Place at_;
  const char* from_[K];
  char* ring_;
  int64_t rows_;
  const float* numbers_;
  int first_, step_, stages_, stage_bytes_, row_bytes_, count_, stage_ = 0;
  uint32_t full_, phase_ = 0;
  Walk<kSample> now_, ahead_;
};

}  // namespace siamese::kernels::tile
