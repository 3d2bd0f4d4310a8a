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

/// A block's shared memory: the first one's is where the tile kernels find theirs.
inline char* memory_of(size_t place) {
  static std::vector<std::unique_ptr<char[]>> others;
  if (place == 0) return tile_memory;
  while (others.size() < place) others.push_back(std::make_unique<char[]>(sizeof tile_memory + 1024));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(others[place - 1].get());
  return others[place - 1].get() + (1024 - begin % 1024);
}

/// A copy by the engine: none overtakes its thread, but they overtake each other, and some take their time.
inline void later(std::function<void()> copy) {
  const unsigned most = state.random() % 5 == 0 ? 300 : 6;
  state.copies.push_back({state.turn + 1 + static_cast<int64_t>(state.random() % most), std::move(copy)});
}
inline void run_copies(int64_t due) {
  for (size_t i = 0; i < state.copies.size();) {
    if (state.copies[i].due > due) {
      ++i;
      continue;
    }
    const Copy copy = std::move(state.copies[i]);
    state.copies.erase(state.copies.begin() + static_cast<std::ptrdiff_t>(i));
    copy.run();
    ++steps();
  }
}

/// Warps are held up now and then, so that others run ahead of them where nothing makes them wait; none anew after a
/// turn in which nothing happened, so that a kernel that hangs is found.
inline bool held_up(const Fiber& f, bool idle) {
  Warp& warp = f.block->warps[static_cast<size_t>(f.linear / 32)];
  if (f.linear % 32 == 0 && !idle && warp.held_up < state.turn && state.random() % 64 == 0)
    warp.held_up = state.turn + static_cast<int64_t>(state.random() % 32);
  return state.turn <= warp.held_up;
}

/// All threads of the blocks at work, in turns, until the last one is done.
inline void run_all() {
  bool idle = false;
  for (size_t left = state.fibers.size(); left > 0;) {
    const int64_t before = steps();
    bool waits = false;
    run_copies(++state.turn);
    for (Fiber& f : state.fibers) {
      if (f.done) continue;
      if (held_up(f, idle)) {
        waits = true;
        continue;
      }
      state.current = &f;
      go_on(f);
      if (state.failure) std::rethrow_exception(state.failure);
      if (f.done) --left, ++steps();
    }
    idle = steps() == before;
    if (idle && !waits && state.copies.empty()) throw std::logic_error("the kernel hangs");
  }
  if (!state.copies.empty()) throw std::logic_error("a block left while copies from or to it were under way");
}

/// The threads of a block that is to work at place `at` of those that work together.
inline void prepare(size_t at, unsigned index) {
  constexpr size_t kStack = 1 << 16;
  const size_t threads = static_cast<size_t>(state.size.x) * state.size.y;
  Block& block = state.blocks[at];
  block.index = {index, 0, 0}, block.memory = memory_of(at), block.warps = std::vector<Warp>(threads / 32);
  block.written.assign(sizeof tile_memory / 4, {});
  std::memset(block.memory, 0xff, sizeof tile_memory);
  for (size_t i = 0; i < threads; ++i) {
    Fiber& f = state.fibers[at * threads + i];
    f.stack = std::make_unique<char[]>(kStack);
    f.block = &block;
    f.thread = {static_cast<unsigned>(i) % state.size.x, static_cast<unsigned>(i) / state.size.x, 0};
    f.linear = static_cast<int>(i);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get(), f.context.uc_stack.ss_size = kStack, f.context.uc_link = nullptr;
    makecontext(&f.context, run_fiber, 0);
  }
}

/// kernel<<<grid, size, shared>>>, `together` blocks at a time, which are one cluster, or several of `cluster` blocks:
/// throws where the kernel hangs or leaves its shared memory.
inline void launch(unsigned grid, Index size, size_t shared, const std::function<void()>& kernel, unsigned together = 1,
                   unsigned cluster = 0) {
  state.cluster = cluster > 0 ? cluster : together;
  state.grid = {grid, 1, 1}, state.size = size, state.shared = shared, state.body = kernel, state.failure = nullptr;
  for (unsigned first = 0; first < grid; first += together) {
    state.fibers = std::vector<Fiber>(static_cast<size_t>(size.x) * size.y * together);
    state.blocks = std::vector<Block>(together);
    state.clusters.assign(together / state.cluster, {}), state.copies.clear(), state.turn = 0, state.random.seed(first);
    for (unsigned i = 0; i < together; ++i) prepare(i, first + i);
    run_all();
    for (const Block& block : state.blocks)
      for (size_t i = shared; i < sizeof tile_memory; ++i)
        if (block.memory[i] != static_cast<char>(0xff)) throw std::logic_error("written past the end of shared memory");
  }
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
