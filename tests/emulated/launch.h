// A kernel's blocks at work: all of their threads in turns, the copy engine's copies between, until the last one is
// done.
#pragma once

#include "fibers.h"

namespace emulator {

/// A block's shared memory: the first one's is where the tile kernels find theirs.
inline char* memory_of(size_t place) {
  static std::vector<std::unique_ptr<char[]>> others;
  if (place == 0) return tile_memory;
  while (others.size() < place) others.push_back(std::make_unique<char[]>(sizeof tile_memory + 1024));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(others[place - 1].get());
  return others[place - 1].get() + (1024 - begin % 1024);
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

}  // namespace emulator
