// How attention_at_once.cu shares the blocks of keys of a head among a team of thread blocks, and in which order a tile
// of queries gets the sums of all blocks.
#pragma once

#include "kernels/cuda/attention_columns.cuh"

namespace siamese::kernels::attention {

/// In layers of a team's size (4, 8 or 16) from the last keys to the first, back and forth, so that all have about
/// as many tiles. All but the first layer start their tiles of queries at different places: a tile meets one block
/// after the other, with time between them.
struct Share {
  int blocks, tiles, team, bits;  // team = 2^bits

  __device__ Share(int blocks_, int tiles_, int team_)
      : blocks(blocks_),
        tiles(tiles_),
        team(team_),
        bits(team_ == 16  ? 4
             : team_ == 8 ? 3
                          : 2) {}
  __device__ int block(int member, int layer) const {
    return blocks - 1 - layer * team - (layer % 2 == 0 ? member : team - 1 - member);
  }
  __device__ int start(int member, int layer, int first) const {
    return layer == 0 ? first : first + ((tiles - first) * member >> bits);
  }
  /// When block b meets tile t, in tiles since its thread block began with the head: after those of the layers before,
  /// Σ tiles - 2·block(member, i).
  __device__ int when(int b, int t) const {
    const int back = blocks - 1 - b, layer = back >> bits, within = back & (team - 1);
    const int member = layer % 2 == 0 ? within : team - 1 - within;
    int time = t - start(member, layer, 2 * b);
    if (time < 0) time += tiles - 2 * b;
    return time + layer * (tiles - 2 * (blocks - 1)) + team * layer * (layer - 1) +
           2 * ((layer >> 1) * (team - 1) + (layer & 1) * member);
  }
  /// How many other blocks meet it before: a tile's sums take turns, always in this order.
  __device__ int turn(int b, int t) const {
    const int mine = when(b, t);
    int count = 0;
    for (int other = 0; other <= t / 2; ++other) {
      const int theirs = when(other, t);
      count += theirs < mine || (theirs == mine && other > b);
    }
    return count;
  }
  /// The turns of a member's tiles, in its order, into shared memory, by all threads. Returns how many they are.
  __device__ int write_turns(int member, uint8_t* turns) const {
    int place = 0;
    for (int layer = 0, b; (b = block(member, layer)) >= 0; ++layer) {
      const int count = tiles - 2 * b, begin = start(member, layer, 2 * b) - 2 * b;
      // Every layer's tiles from another thread on: all threads have some.
      for (int n = (static_cast<int>(threadIdx.x) - place) & (static_cast<int>(blockDim.x) - 1); n < count;
           n += static_cast<int>(blockDim.x))
        turns[place + n] = static_cast<uint8_t>(turn(b, 2 * b + (begin + n < count ? begin + n : begin + n - count)));
      place += count;
    }
    return place;
  }
};

/// The blocks of keys of this thread block, head after head.
struct Walk {
  const Shape& s;
  int index = blockIdx.x / s.team, round = 0, layer = 0, place = 0;  // place: tiles of this head before this block
  int block, batch, head;

  __device__ explicit Walk(const Shape& shape) : s(shape) { find(); }
  __device__ bool more() const { return index < s.batch * s.heads && member() < s.blocks; }
  __device__ void next() {
    place += query_tiles(s.length) - 2 * block;
    ++layer;
    find();
  }
  __device__ void find() {
    block = share().block(member(), layer);
    if (block < 0 && more()) {
      index += rows(), ++round, layer = 0, place = 0;
      block = share().block(member(), 0);
    }
    batch = index / s.heads, head = index % s.heads;
  }
  __device__ Share share() const { return Share(s.blocks, query_tiles(s.length), s.team); }
  __device__ int member() const { return blockIdx.x % s.team; }
  __device__ int rows() const { return gridDim.x / s.team; }
  __device__ int start(int first) const { return share().start(member(), layer, first); }
  /// How many heads this thread block sees in all.
  __device__ int heads() const {
    return (s.batch * s.heads - static_cast<int>(blockIdx.x) / s.team + rows() - 1) / rows();
  }
  /// Which memory for sums this head uses: two a row of heads, in turn.
  __device__ int slot() const { return blockIdx.x / s.team * 2 + (round & 1); }
  /// How often tile t of that memory has been added to before this head.
  __device__ int before(int t) const { return (round >> 1) * (t / 2 + 1); }
};

/// do_tile(item, t, turn, last) for all tiles of all blocks of keys of this thread block, in order.
template <class Tile>
__device__ __forceinline__ void walk_tiles(const Shape& s, uint32_t turns, const Tile& do_tile) {
  const int tiles = query_tiles(s.length);
  for (Walk item(s); item.more(); item.next()) {
    const int first = 2 * item.block;
#pragma unroll 1
    for (int n = first, t = item.start(first); n < tiles; ++n, t = tile_after(t, first, tiles)) {
      const int turn = hopper::shared_byte(turns + item.place + n - first);
      do_tile(item, t, turn, n + 1 == tiles);
    }
  }
}

}  // namespace siamese::kernels::attention
