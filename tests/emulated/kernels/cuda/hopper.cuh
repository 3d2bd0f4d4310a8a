// Stands in for src/kernels/cuda/hopper.cuh: barriers, boxes, products of a warpgroup, fragments.
#pragma once

#include <cuda.h>

#include "emulator.h"

#define SIAMESE_DYNAMIC_MEMORY(name) uint8_t* const name = reinterpret_cast<uint8_t*>(emulator::block().memory)

namespace siamese::kernels::hopper {

using emulator::Arrivals;
using emulator::Block;

/// A place in another block of the cluster has its number, from 1 on, in the upper bits.
constexpr uint32_t kBlockShift = 24, kPlace = (1U << kBlockShift) - 1;
inline Block& block_of(uint32_t address) {
  Block& here = emulator::block();
  const size_t first = emulator::first_of_cluster(here);
  return address > kPlace ? emulator::state.blocks.at(first + (address >> kBlockShift) - 1) : here;
}
inline Arrivals& arrivals_at(uint32_t barrier) { return block_of(barrier).arrivals.at(barrier & kPlace); }
/// `bytes` of a block's shared memory.
inline char* memory_at(Block& block, uint32_t address, uint32_t bytes) {
  if (address + bytes > emulator::state.shared) throw std::logic_error("past the end of shared memory");
  return block.memory + address;
}
inline char* memory_at(uint32_t address, uint32_t bytes) { return memory_at(emulator::block(), address, bytes); }
/// An ordinary store: the copy engine and the tensor cores may read it once its thread has passed a fence.
inline void put_words(uint32_t address, const void* from, uint32_t bytes) {
  std::memcpy(memory_at(address, bytes), from, bytes);
  const emulator::Fiber* by = emulator::state.current;
  for (uint32_t i = 0; i < bytes; i += 4) emulator::block().written[(address + i) / 4] = {by, by->fences};
}
inline void require_fence(const Block& block, uint32_t address) {
  const emulator::Written& w = block.written.at(address / 4);
  if (w.by != nullptr && w.by->fences == w.fences)
    throw std::logic_error("an engine reads shared memory that was written without a fence");
}
template <class T>
T read_shared(uint32_t address) {
  if (address % sizeof(T) != 0) throw std::logic_error("a read of shared memory that is not aligned");
  T value;
  std::memcpy(&value, memory_at(address, sizeof(T)), sizeof(T));
  return value;
}

inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const char*>(p) - emulator::block().memory);
}
inline void barrier_init(uint32_t barrier, int arrivals) {
  emulator::block().arrivals[barrier] = {arrivals, arrivals, 0, 0};
}
inline void barrier_init_done() {}
inline void barrier_wait(uint32_t barrier, uint32_t phase) {
  while (arrivals_at(barrier).phase % 2 == phase) emulator::yield();
}
inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  Arrivals& a = arrivals_at(barrier);
  a.bytes += bytes, --a.pending;
  a.check();
}
inline void barrier_arrive(uint32_t barrier) { barrier_expect(barrier, 0); }
inline uint32_t address_in(uint32_t address, uint32_t block) { return address | (block + 1) << kBlockShift; }
inline void barrier_arrive_in_cluster(uint32_t barrier) { barrier_expect(barrier, 0); }
inline void named_sync(int id, int threads) { emulator::wait_at(emulator::block().barriers[id], threads); }
inline void named_arrive(int id, int threads) { emulator::arrive_at(emulator::block().barriers[id], threads); }

template <int>
void take_registers() {}
template <int>
void leave_registers() {}

/// What stands in a CUtensorMap here: bf16 [batch, rows, columns], boxes swizzled over the 128 or 64 bytes of their
/// rows.
struct Map {
  char* data;
  int64_t batch, rows, columns, stride;
  int box_rows, box_columns;

  static CUtensorMap make(const void* data, int64_t batch, int64_t rows, int64_t columns, int64_t stride, int box_rows,
                          int box_columns) {
    const Map map{
        const_cast<char*>(static_cast<const char*>(data)), batch, rows, columns, stride, box_rows, box_columns};
    CUtensorMap made;
    static_assert(sizeof map <= sizeof made);
    std::memcpy(&made, &map, sizeof map);
    return made;
  }
  explicit Map(const CUtensorMap& made) { std::memcpy(this, &made, sizeof *this); }
  uint32_t bytes() const { return static_cast<uint32_t>(box_rows * box_columns * 2); }
  /// move(in shared memory, in global memory or null past the end) for all of a box's values.
  template <class Move>
  void each(uint32_t shared, int column, int row, int of_batch, const Move& move) const {
    const uint32_t row_bytes = static_cast<uint32_t>(box_columns) * 2, mixed = row_bytes / 16 - 1;
    if ((box_columns != 64 && box_columns != 32) || shared % (8 * row_bytes) != 0)
      throw std::logic_error("a box that is not aligned or not 64 or 32 wide");
    for (int r = 0; r < box_rows; ++r)
      for (int c = 0; c < box_columns; ++c) {
        const uint32_t at = shared + static_cast<uint32_t>(r) * row_bytes + static_cast<uint32_t>(c) * 2;
        const bool inside = row + r < rows && column + c < columns && of_batch < batch;
        move(at ^ ((at >> 7 & mixed) << 4),
             inside ? data + 2 * ((of_batch * rows + row + r) * stride + column + c) : nullptr);
      }
  }

 private:
  Map(char* p, int64_t b, int64_t r, int64_t c, int64_t s, int br, int bc)
      : data(p), batch(b), rows(r), columns(c), stride(s), box_rows(br), box_columns(bc) {}
};

inline void load_box_to(Block& block, const Map& map, uint32_t to, uint32_t barrier, int column, int row, int batch) {
  emulator::later([=, &block] {
    map.each(to, column, row, batch, [&](uint32_t at, const char* from) {
      const uint16_t none = 0;
      std::memcpy(memory_at(block, at, 2), from != nullptr ? from : reinterpret_cast<const char*>(&none), 2);
      block.written[at / 4] = {};
    });
    Arrivals& a = block.arrivals.at(barrier);
    a.bytes -= map.bytes();
    a.check();
  });
}
inline void load_box(const CUtensorMap& map, uint32_t to, uint32_t barrier, int column, int row, int batch = 0) {
  load_box_to(emulator::block(), Map(map), to, barrier, column, row, batch);
}
inline void load_box_to_all(const CUtensorMap& map, uint32_t to, uint32_t barrier, int column, int row, uint16_t mask) {
  const size_t first = emulator::first_of_cluster(emulator::block());
  for (size_t i = 0; i < emulator::state.cluster; ++i)
    if ((mask >> i & 1) != 0) load_box_to(emulator::state.blocks[first + i], Map(map), to, barrier, column, row, 0);
}
inline void store_box(const CUtensorMap& map, uint32_t from, int column, int row, int batch = 0) {
  Map(map).each(from, column, row, batch, [&](uint32_t at, char*) { require_fence(emulator::block(), at); });
  ++emulator::state.current->stores;
  emulator::later([=, m = Map(map), fiber = emulator::state.current] {
    m.each(from, column, row, batch, [&](uint32_t at, char* to) {
      if (to != nullptr) std::memcpy(to, memory_at(*fiber->block, at, 2), 2);
    });
    --fiber->stores;
  });
}
inline void store_commit() {}
template <int pending>
void store_wait_read() {
  static_assert(pending == 0);
  while (emulator::state.current->stores > 0) emulator::yield();
}
inline void fence_for_copies() { ++emulator::state.current->fences; }
inline void prefetch_map(const CUtensorMap&) {}
inline void prefetch_box(const CUtensorMap&, int, int, int) {}

inline uint64_t matrix_at(uint32_t address, uint32_t major, uint32_t stride) {
  return static_cast<uint64_t>(address >> 4) | static_cast<uint64_t>(major >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32;
}
inline void products_begin() {}
inline emulator::Warpgroup& warpgroup() { return emulator::block().warpgroups[emulator::state.current->linear / 128]; }
inline void products_commit() {
  emulator::Fiber& fiber = *emulator::state.current;
  emulator::Warpgroup::Group& group = warpgroup().groups[++fiber.groups];
  ++group.threads;
  for (auto& product : fiber.products) group.products.push_back(std::move(product));
  fiber.products.clear();
  ++emulator::steps();
}
template <int pending>
void products_wait() {
  emulator::Warpgroup& all = warpgroup();
  while (all.done < emulator::state.current->groups - pending) {
    const auto next = all.groups.find(all.done + 1);
    if (next == all.groups.end() || next->second.threads < 128) {
      emulator::yield();
      continue;
    }
    for (const auto& product : next->second.products) product();
    all.groups.erase(next);
    ++all.done, ++emulator::steps();
  }
}

inline float bf16_at(Block& block, uint32_t address) {
  uint16_t bits;
  address ^= (address >> 7 & 7) << 4;
  require_fence(block, address);
  std::memcpy(&bits, memory_at(block, address, 2), 2);
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
/// Value (i, k) of an operand in shared memory, i of M or N.
inline float operand(Block& block, uint64_t matrix, bool k_fastest, int i, int k) {
  const uint32_t begin = static_cast<uint32_t>(matrix & 0x3fff) << 4, major = static_cast<uint32_t>(matrix >> 16) << 4,
                 stride = static_cast<uint32_t>(matrix >> 32) << 4;
  const auto row = static_cast<uint32_t>(k_fastest ? i : k), column = static_cast<uint32_t>(k_fastest ? k : i);
  return bf16_at(block, begin + row / 8 * stride + row % 8 * 128 + column / 64 * (major & 0x3ffff) + column % 64 * 2);
}
/// A's part of a thread: rows i and i + 8 of its warp's 16, all of k.
struct Rows {
  float v[2][16];
};
/// This thread's part of d[64 × n] += A·B over 16 of k; a(block) gives A's part when the product is made.
template <int n, class A>
void multiply(float (&d)[n / 2], const A& a, uint64_t b, bool k_fastest, int add) {
  const int lane = emulator::state.current->linear % 32;
  emulator::state.current->products.push_back([=, &d, block = &emulator::block()] {
    const Rows rows = a(*block);
    for (int j = 0; j < n / 8; ++j)
      for (int c = 0; c < 2; ++c) {
        float column[16];
        for (int k = 0; k < 16; ++k) column[k] = operand(*block, b, k_fastest, 8 * j + lane % 4 * 2 + c, k);
        for (int r = 0; r < 2; ++r) {
          float sum = add != 0 ? d[4 * j + 2 * r + c] : 0.f;
          for (int k = 0; k < 16; ++k) sum += rows.v[r][k] * column[k];
          d[4 * j + 2 * r + c] = sum;
        }
      }
  });
}
/// A in shared memory.
struct FromMemory {
  uint64_t matrix;
  bool k_fastest;
  int row = emulator::state.current->linear / 32 % 4 * 16 + emulator::state.current->linear % 32 / 4;

  Rows operator()(Block& block) const {
    Rows rows;
    for (int r = 0; r < 2; ++r)
      for (int k = 0; k < 16; ++k) rows.v[r][k] = operand(block, matrix, k_fastest, row + 8 * r, k);
    return rows;
  }
};

/// n = 128, 176 or 192: A's k runs fastest.
template <bool n_fastest, int half>
void product(float (&d)[half], uint64_t a, uint64_t b, int add) {
  static_assert(half != 32);
  multiply<2 * half>(d, FromMemory{a, true}, b, !n_fastest, add);
}

template <bool m_fastest, bool n_fastest>
void product256(float (&d)[128], uint64_t a, uint64_t b, int add) {
  multiply<256>(d, FromMemory{a, !m_fastest}, b, !n_fastest, add);
}

inline void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const int lane = emulator::state.current->linear % 32;
  const emulator::Slot& rows = emulator::gather(to);
  const uint32_t values[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) put_words(rows[8 * i + lane / 4][0] + static_cast<uint32_t>(lane % 4) * 4, &values[i], 4);
  emulator::gather(0);
}
inline void load_matrices(uint32_t from, uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  const int lane = emulator::state.current->linear % 32;
  const emulator::Slot& rows = emulator::gather(from);
  uint32_t* const values[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i)
    *values[i] = read_shared<uint32_t>(rows[8 * i + lane / 4][0] + static_cast<uint32_t>(lane % 4) * 4);
}
inline float low(uint32_t both) { return __uint_as_float(both << 16); }
inline float high(uint32_t both) { return __uint_as_float(both & 0xffff0000U); }
inline uint32_t pack(float low, float high) { return emulator::rounded(low) | emulator::rounded(high) << 16; }

}  // namespace siamese::kernels::hopper
