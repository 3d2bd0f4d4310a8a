// Threads of CUDA kernels as fibers of one thread of the CPU, and what they wait for.
#pragma once

#include <cuda_runtime.h>
#include <setjmp.h>
#include <ucontext.h>
#include <vector_functions.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#undef __device__
#undef __global__
#undef __host__
#undef __forceinline__
#undef __launch_bounds__
#undef __shared__
#undef __align__
#undef __grid_constant__
#undef __cluster_dims__
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__
#define __align__(n)
#define __grid_constant__
#define __cluster_dims__(...)

namespace siamese::kernels::tile {
alignas(1024) inline char tile_memory[232448];  // the kernels' dynamic shared memory
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
/// Four words of every lane.
using Slot = uint32_t[32][4];
struct Warp : Barrier {
  Slot slot[2];         // in turn, so that a fast lane does not overwrite what a slow one has yet to read
  int64_t held_up = 0;  // until this turn of all threads
};
/// Products of a warpgroup's threads, in groups that begin when all of them have handed theirs in; they read shared
/// memory and write registers when somebody waits for them.
struct Warpgroup {
  struct Group {
    int threads = 0;
    std::vector<std::function<void()>> products;
  };
  int64_t done = 0;
  std::map<int64_t, Group> groups;
};
/// Who last wrote four bytes of shared memory by ordinary stores, and how many fences for engines that thread had
/// passed.
struct Written {
  const struct Fiber* by = nullptr;
  unsigned fences = 0;
};
struct Block {
  Index index;
  char* memory = nullptr;
  std::map<int, Warpgroup> warpgroups;
  std::vector<Warp> warps;
  std::map<int, Barrier> barriers;
  std::map<uint32_t, Arrivals> arrivals;
  std::vector<Written> written;
};
struct Fiber {
  ucontext_t context;  // where it begins
  jmp_buf place;       // where it goes on
  bool begun = false;
  std::unique_ptr<char[]> stack;
  Block* block = nullptr;
  Index thread;
  int linear = 0;
  bool done = false;
  int stores = 0;                               // boxes that are still to be read from shared memory
  std::vector<std::function<void()>> products;  // not yet handed in
  int64_t groups = 0;                           // handed in
  unsigned fences = 0;                          // passed
};
/// A copy on its way: it reads and writes in some later turn.
struct Copy {
  int64_t due;
  std::function<void()> run;
};
struct State {
  jmp_buf scheduler;
  std::vector<Fiber> fibers;
  std::vector<Block> blocks;      // those at work
  size_t cluster = 1;             // blocks of a cluster, next to each other
  std::vector<Barrier> clusters;  // of all threads of each
  std::vector<Copy> copies;
  int64_t turn = 0;
  std::mt19937 random;
  Fiber* current = nullptr;
  Index grid, size;
  size_t shared = 0;
  std::function<void()> body;
  std::exception_ptr failure;
};
inline State state;
inline Block& block() { return *state.current->block; }
/// Which of those at work is the first one of this block's cluster.
inline size_t first_of_cluster(const Block& block) {
  const auto at = static_cast<size_t>(&block - state.blocks.data());
  return at - at % state.cluster;
}

// By _setjmp, which leaves signals alone: swapcontext asks the kernel of the system every time.
inline void yield() {
  if (_setjmp(state.current->place) == 0) _longjmp(state.scheduler, 1);
}
/// Until it yields or is done.
inline void go_on(Fiber& f) {
  if (_setjmp(state.scheduler) != 0) return;
  if (f.begun) _longjmp(f.place, 1);
  f.begun = true;
  setcontext(&f.context);
}
inline void run_fiber() {
  try {
    state.body();
    if (state.current->stores > 0) throw std::logic_error("a thread left while its stores read shared memory");
  } catch (...) {
    state.failure = std::current_exception();
  }
  state.current->done = true;
  yield();
}

/// A copy by the engine: none overtakes its thread, but they overtake each other, and some take their time.
inline void later(std::function<void()> copy) {
  const unsigned most = state.random() % 5 == 0 ? 300 : 6;
  state.copies.push_back({state.turn + 1 + static_cast<int64_t>(state.random() % most), std::move(copy)});
}
inline void arrive_at(Barrier& barrier, int threads) {
  if (++barrier.arrived == threads) barrier.arrived = 0, ++barrier.generation;
  ++steps();
}
inline void wait_at(Barrier& barrier, int threads) {
  const unsigned now = barrier.generation;
  arrive_at(barrier, threads);
  while (barrier.generation == now) yield();
}

/// What every lane of the warp gives, up to four words, until the exchange after next.
template <class... T>
const Slot& gather(const T&... v) {
  Warp& warp = block().warps[static_cast<size_t>(state.current->linear / 32)];
  Slot& slot = warp.slot[warp.generation % 2];
  int i = 0;
  (std::memcpy(&slot[state.current->linear % 32][i++], &v, 4), ...);
  wait_at(warp, 32);
  return slot;
}
/// Every lane gives v and takes that of lane `from`, or of the lane whose number differs from its own by the bits of
/// it.
template <class T>
T exchange(T v, int from, bool relative) {
  static_assert(sizeof(T) == 4);
  T out;
  std::memcpy(&out, gather(v)[relative ? state.current->linear % 32 ^ from : from], 4);
  return out;
}

/// bf16 bits of f, rounded to nearest even.
inline uint32_t rounded(float f) {
  uint32_t w;
  std::memcpy(&w, &f, 4);
  return (w + 0x7fff + ((w >> 16) & 1)) >> 16;
}

}  // namespace emulator
