// The sums of attention_at_once.cu on their way: three threads of a thread block fetch what others have added up so
// far, tell others of what has been added here and send off what is complete, so that nobody else waits for global
// memory.
#pragma once

#include "kernels/cuda/attention_share.cuh"

namespace siamese::kernels::attention {

constexpr uint32_t kSums = 64 * kHead * 4;    // bytes of a tile of sums
constexpr uint32_t kAngles = 64 * kHead * 4;  // bytes of a tile's angles

/// What the third warpgroup has to know of a tile.
struct Note {
  int tile;  // of the memory for sums
  int flags;

  enum : int { kFirst = 1, kFinal = 2, kLastOfKeys = 4 };
};

/// Row of a head's token among those of all heads, [heads, batch·length].
__device__ __forceinline__ int row_of_all(const Shape& s, int head, int batch, int token) {
  return (head * s.batch + batch) * s.length + token;
}

/// Beside it where queries go through a norm: the first one's row of all heads, and how many rows the sample has from
/// there on.
struct NoteOfRows {
  int row, left;
};

/// One thread waits for the tiles' turns and fetches the sums so far, ahead of those who need them.
template <bool normed>
__device__ __forceinline__ void fetch_sums(const Shape& s, uint32_t turns, const float* sums, const int* added,
                                           Ring given, Note* notes, NoteOfRows* rows) {
  const int tiles = query_tiles(s.length);
  walk_tiles(s, turns, [&](const Walk& item, int t, int turn, bool last) {
    const int tile = item.slot() * tiles + t, wanted = item.before(t) + turn;
    given.wait_empty();
    notes[given.at] = {
        tile, (turn == 0 ? Note::kFirst : 0) | (turn == t / 2 ? Note::kFinal : 0) | (last ? Note::kLastOfKeys : 0)};
    if (normed) rows[given.at] = {row_of_all(s, item.head, item.batch, t * 64), s.length - t * 64};
    while (hopper::read_acquire(added + tile) != wanted) {
    }
    if (turn == 0) {
      hopper::barrier_arrive(given.filled());
    } else {
      hopper::fence_for_copies_of_memory();
      hopper::barrier_expect(given.filled(), kSums);
      copy_bulk(given.stage(), sums + static_cast<int64_t>(tile) * (64 * kHead), kSums, given.filled());
    }
    given.advance();
  });
}

/// One thread sees the tiles out that become complete here. It fetches their angles, if there are any, ahead of that,
/// to behind the place for the results, and where they go through a norm the queries `q` to that place; when the
/// results lie there it sends them off. Angles come while the last results leave; queries of the next tile, which often
/// is the next one to become complete, come from memory to L2 meanwhile if they are to be `ahead`.
template <bool normed>
__device__ __forceinline__ void finish_queries(const Shape& s, uint32_t turns, const OrderedAngles& angles,
                                               const CUtensorMap& q, bool ahead, const CUtensorMap& g_q, Ring last) {
  walk_tiles(s, turns, [&](const Walk& item, int t, int turn, bool) {
    if (turn != t / 2) return;
    if (angles.on()) copy_bulk(last.stage() + kTile64, angles.all + t * OrderedAngles::kTile, kAngles, last.filled());
    hopper::store_wait_read<0>();
    if (normed) {
      hopper::load_box(q, last.stage(), last.filled(), item.head * kHead, t * 64, item.batch);
      if (ahead) hopper::prefetch_box(q, item.head * kHead, t * 64 + 64, item.batch);
    }
    hopper::barrier_expect(last.filled(), (angles.on() ? kAngles : 0) + (normed ? kTile64 : 0));
    hopper::barrier_wait(last.empty, last.phase);
    hopper::store_box(g_q, last.stage(), item.head * kHead, t * 64, item.batch);
    hopper::store_commit();
    last.advance();
  });
  hopper::store_wait_read<0>();
}

/// One thread says that a tile has been added to, once what was written can be seen everywhere: a wait of its own.
__device__ __forceinline__ void publish(const Shape& s, uint32_t turns, int* added, Ring written) {
  const int tiles = query_tiles(s.length);
  walk_tiles(s, turns, [&](const Walk& item, int t, int turn, bool) {
    written.wait_filled();
    hopper::write_release(added + item.slot() * tiles + t, item.before(t) + turn + 1);
    hopper::barrier_arrive(written.empty + written.at * 8);
    written.advance();
  });
}

}  // namespace siamese::kernels::attention
