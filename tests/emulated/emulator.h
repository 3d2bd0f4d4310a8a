// CUDA kernels on a CPU, for their logic: a fiber a thread, one block after the other, shared memory full of NaN at
// first. Kernels are included as they are; tests/emulated/kernels/cuda stands in for the headers with instructions.
#pragma once

#include <cuda_runtime_api.h>
#include <ucontext.h>
#include <vector_functions.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#undef __device__
#undef __global__
#undef __host__
#undef __forceinline__
#undef __launch_bounds__
#undef __shared__
#undef __align__
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__
#define __align__(n)

namespace siamese::kernels::tile {
alignas(128) inline char tile_memory[232448];  // the kernels' dynamic shared memory
}

namespace emulator {

using siamese::kernels::tile::tile_memory;

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
/// What has happened so far: a turn of all threads in which nothing does is the last one.
inline int64_t& steps() {
  static int64_t count = 0;
  return count;
}

struct Barrier {
  int arrived = 0;
  unsigned generation = 0;
};
/// A barrier in shared memory that counts arrivals and bytes.
struct Arrivals {
  int count = 0, pending = 0;
  int64_t bytes = 0;
  unsigned phase = 0;
  void check() {
    if (pending < 0) throw std::logic_error("more arrivals than the barrier counts");
    if (pending == 0 && bytes == 0) pending = count, ++phase;
    ++steps();
  }
};
struct Warp : Barrier {
  uint32_t slot[2][32];  // in turn, so that a fast lane does not overwrite what a slow one has yet to read
};
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Index thread;
  int linear = 0;
  bool done = false;
};
struct State {
  ucontext_t scheduler;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::map<int, Barrier> barriers;
  std::map<uint32_t, Arrivals> arrivals;
  Fiber* current = nullptr;
  Index block, grid, size;
  size_t shared = 0;
  std::function<void()> body;
  std::exception_ptr failure;
};
inline State state;

inline void yield() { swapcontext(&state.current->context, &state.scheduler); }
inline void run_fiber() {
  try {
    state.body();
  } catch (...) {
    state.failure = std::current_exception();
  }
  state.current->done = true;
  yield();
}

/// kernel<<<grid, size, shared>>>: throws where the kernel hangs or leaves its shared memory.
inline void launch(unsigned grid, Index size, size_t shared, const std::function<void()>& kernel) {
  constexpr size_t kStack = 1 << 16;
  state.grid = {grid, 1, 1}, state.size = size, state.shared = shared, state.body = kernel, state.failure = nullptr;
  for (unsigned b = 0; b < grid; ++b) {
    state.block = {b, 0, 0};
    std::memset(tile_memory, 0xff, sizeof tile_memory);
    const size_t threads = static_cast<size_t>(size.x) * size.y;
    state.fibers = std::vector<Fiber>(threads);
    state.warps = std::vector<Warp>(threads / 32);
    state.barriers.clear(), state.arrivals.clear();
    for (size_t i = 0; i < threads; ++i) {
      Fiber& f = state.fibers[i];
      f.stack = std::make_unique<char[]>(kStack);
      f.thread = {static_cast<unsigned>(i) % size.x, static_cast<unsigned>(i) / size.x, 0};
      f.linear = static_cast<int>(i);
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get(), f.context.uc_stack.ss_size = kStack, f.context.uc_link = nullptr;
      makecontext(&f.context, run_fiber, 0);
    }
    for (size_t left = threads; left > 0;) {
      const int64_t before = steps();
      for (Fiber& f : state.fibers) {
        if (f.done) continue;
        state.current = &f;
        swapcontext(&state.scheduler, &f.context);
        if (state.failure) std::rethrow_exception(state.failure);
        if (f.done) --left, ++steps();
      }
      if (steps() == before) throw std::logic_error("the kernel hangs");
    }
    for (size_t i = shared; i < sizeof tile_memory; ++i)
      if (tile_memory[i] != static_cast<char>(0xff)) throw std::logic_error("written past the end of shared memory");
  }
}

inline void wait_at(Barrier& barrier, int threads) {
  const unsigned now = barrier.generation;
  if (++barrier.arrived == threads) barrier.arrived = 0, ++barrier.generation;
  ++steps();
  while (barrier.generation == now) yield();
}

/// Every lane gives v and takes that of lane `from`, or of the lane whose number differs from its own by the bits of
/// it.
template <class T>
T exchange(T v, int from, bool relative) {
  static_assert(sizeof(T) == 4);
  Warp& warp = state.warps[static_cast<size_t>(state.current->linear / 32)];
  const int lane = state.current->linear % 32;
  const unsigned turn = warp.generation % 2;
  std::memcpy(&warp.slot[turn][lane], &v, 4);
  wait_at(warp, 32);
  T out;
  std::memcpy(&out, &warp.slot[turn][relative ? lane ^ from : from], 4);
  return out;
}

/// bf16 bits of f, rounded to nearest even.
inline uint32_t rounded(float f) {
  uint32_t w;
  std::memcpy(&w, &f, 4);
  return (w + 0x7fff + ((w >> 16) & 1)) >> 16;
}

}  // namespace emulator

#define threadIdx (emulator::state.current->thread)
#define blockIdx (emulator::state.block)
#define gridDim (emulator::state.grid)
#define blockDim (emulator::state.size)

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __nv_bfloat162 {
  uint32_t bits;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {emulator::rounded(a) | emulator::rounded(b) << 16};
}
inline float __uint_as_float(uint32_t w) {
  float f;
  std::memcpy(&f, &w, 4);
  return f;
}
inline float rsqrtf(float v) { return 1.f / std::sqrt(v); }
template <class T>
T __shfl_sync(unsigned, T v, int from) {
  return emulator::exchange(v, from, false);
}
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask) {
  return emulator::exchange(v, mask, true);
}
inline void __syncwarp() { emulator::exchange(0, 0, true); }
inline void __syncthreads() {
  emulator::wait_at(emulator::state.barriers[0], static_cast<int>(blockDim.x * blockDim.y));
}
