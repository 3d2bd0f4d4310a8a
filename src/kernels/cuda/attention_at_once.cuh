// All gradients in one pass, for causal attention where every head has its own keys: five products a pair of tiles
// instead of seven. g_V and g_K as in attention_columns.cuh; dSᵀ goes through shared memory to a third warpgroup, which
// adds dS·K to what other blocks of keys have given these 64 queries:  g_Q[t] = c·Σ_j dS[t, j]·K[j].
// The sums so far pass from block to block in global memory (they stay in L2) in an order that is always the same. A
// team of thread blocks shares the keys of a head; each starts at other queries, so that a tile's turns come in that
// order with time between them, and nobody waits long. Where q, k and v had been normed, their gradients go through
// the norms on their way out (attention_norms.cuh).
#pragma once

#include "kernels/cuda/attention_norms.cuh"
#include "kernels/cuda/attention_sums.cuh"

namespace siamese::kernels::attention {
namespace at_once {

constexpr int kStages = 3, kRoles = 4 * kGroup;
constexpr uint32_t kDs = 2 * kTile64;  // bytes of dSᵀ [128 keys, 64 queries]
// Shared memory: two stages of dSᵀ, two of sums so far, g_K, g_Q, angles, then Memory, then the barriers of four rings.
constexpr uint32_t kSumsAt = 2 * kDs, kKeysAt = kSumsAt + 2 * kSums, kQueriesAt = kKeysAt + kTile128;
constexpr uint32_t kMemoryAt = kQueriesAt + kTile64 + kAngles;
constexpr uint32_t kBarriersAt = kMemoryAt + Memory::bytes(2 * kTile128, kColumnStage, kStages);
constexpr uint32_t kNotesAt = (kBarriersAt + 3 * 32 + 16 + 15) / 16 * 16, kTurnsAt = kNotesAt + 2 * sizeof(Note);
constexpr int kWarps = kGroup / 32;

/// Where NormMemory lies, behind the turns, and how much shared memory there is in all.
inline uint32_t norms_begin(const AtOnce& plan) { return (kTurnsAt + plan.turns() + 15) / 16 * 16; }
inline uint32_t bytes(const AtOnce& plan, bool normed, bool lean) {
  return normed ? norms_begin(plan) + (lean ? NormMemory::kLeanBytes : NormMemory::kBytes) : kTurnsAt + plan.turns();
}

/// All lanes of a warp are past it: one arrival.
__device__ __forceinline__ void arrive_warp(uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) hopper::barrier_arrive(barrier);
}

/// ρ of a head's row and of the one eight on, of rows of which `left` are there.
__device__ __forceinline__ float2 rho_of(const float* rho, int left) {
  return make_float2(left > 0 ? __ldg(rho) : 0.f, left > 8 ? __ldg(rho + 8) : 0.f);
}

/// dSᵀ in shared memory, where the third warpgroup reads it too.
template <bool normed, bool lean>
struct Shared {
  static constexpr bool kNormed = normed;
  Ring ring;
  uint32_t keys;
  int mine;
  uint32_t last;  // dSᵀ of the last tile

  __device__ void take(const float (&ds)[32]) {
    last = ring.stage() + mine * kTile64;
    put(ds);
  }
  __device__ void nothing() {
    const float none[32] = {};
    put(none);
  }
  __device__ void put(const float (&ds)[32]) {
    const Lane lane;
    ring.wait_empty();
    store_rows(ring.stage() + mine * kTile64, ds, lane, 1.f, 1.f);
    hopper::fence_for_copies();
    arrive_warp(ring.filled());
    ring.advance();
  }
  __device__ void times_queries(float (&g_k)[32], uint32_t q, bool add) const {
    const uint64_t a = hopper::matrix_at(last, 16, 1024), b = hopper::matrix_at(q, 16, 1024);
#pragma unroll
    for (int k = 0; k < 4; ++k) hopper::product<false>(g_k, a + 2 * k, b + 128 * k, add || k > 0);
  }
  __device__ void hold() const {}
  __device__ uint32_t place_of_keys(uint32_t) const { return keys + mine * kTile64; }

  // Through the norms of k and v. x of k comes to where g_K goes, unless what is held of k tells it.
  const Shape& shape;
  const HeadNorms& norms;
  NormMemory memory;
  bool told;
  uint32_t phase;

  /// What was there has left.
  __device__ void begin(const Walk& item, int row) const {
    if (!normed || (lean && told) || threadIdx.x % kGroup != 0) return;
    hopper::barrier_expect(memory.barrier(mine), kTile64);
    hopper::load_box(norms.k, place_of_keys(0), memory.barrier(mine), item.head * kHead, row, item.batch);
  }
  /// Of k, then of v.
  __device__ float4 rho(const Walk& item, int row) const {
    if (!normed) return make_float4(0.f, 0.f, 0.f, 0.f);
    const float* at = norms.rho + row_of_all(shape, shape.heads + item.head, item.batch, row);
    const float2 k = rho_of(at, shape.length - row);
    const float2 v = rho_of(at + shape.heads * shape.batch * shape.length, shape.length - row);
    return make_float4(k.x, k.y, v.x, v.y);
  }
  __device__ void through_norms(float (&g_k)[32], float (&g_v)[32], const uint32_t (&k)[16], const uint32_t (&v)[16],
                                float4 rho, const OrderedAngles& angles, int row) {
    const Lane lane;
    float4 turn_by[8];
    angles.load(turn_by, lane, row);
    through_norm_told(g_v, Held{v}, Unturned{}, lane, 1.f, make_float2(rho.z, rho.w), memory.gains(2),
                      memory.inverse_gains(2), memory.of_values(mine, lane.warp));
    const float2 rho_k = make_float2(rho.x, rho.y);
    const uint32_t sums = memory.of_keys(mine, lane.warp);
    if (lean && told)
      return through_norm_told(g_k, Held{k}, TurnedBy{turn_by}, lane, shape.scale, rho_k, memory.gains(1),
                               memory.inverse_gains(1), sums);
    turn_back(g_k, turn_by);
    hopper::barrier_wait(memory.barrier(mine), phase);
    phase ^= 1;
    through_norm(g_k, Stored{place_of_keys(0), lane}, lane, shape.scale, rho_k, memory.gains(1), sums);
  }
};

/// g_Q: dS·K of this block of keys plus the sums so far. Whose turn is the last one has them all. `count`: tiles;
/// `told`: what comes to the place of the results is y instead of x.
template <bool normed, bool lean>
__device__ __forceinline__ void add_up(int count, float scale, bool turned, Memory& memory, Ring ds, Ring given,
                                       Ring written, Ring last, const Note* notes, float* sums, const float* all_rho,
                                       const NoteOfRows* rows_of, const NormMemory& norms, bool told) {
  const int thread = threadIdx.x % kGroup;
#pragma unroll 1
  for (; count > 0; --count) {
    float d[32];
    memory.own.wait_filled();
    ds.wait_filled();
    const uint64_t rows = hopper::matrix_at(ds.stage(), 16, 1024);
    const uint64_t keys = hopper::matrix_at(memory.own.stage(), 16, 1024);
    hopper::products_begin();
#pragma unroll
    for (int k = 0; k < 8; ++k) hopper::product<true>(d, rows + 128 * k, keys + 128 * k, k > 0);
    hopper::products_commit();
    hopper::products_wait<0>();
    arrive_warp(ds.empty + ds.at * 8);
    ds.advance();
    given.wait_filled();
    const Note note = notes[given.at];
    const int flags = note.flags;
    float2 rho = make_float2(0.f, 0.f);  // on its way while sums are added
    if (normed && (flags & Note::kFinal) != 0) {
      const Lane lane;
      const NoteOfRows n = rows_of[given.at];
      rho = rho_of(all_rho + n.row + lane.row, n.left - lane.row);
    }
    if ((flags & Note::kFirst) == 0) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float4 f = hopper::shared_float4(given.stage() + (i * kGroup + thread) * 16);
        d[4 * i] += f.x, d[4 * i + 1] += f.y, d[4 * i + 2] += f.z, d[4 * i + 3] += f.w;
      }
    }
    // The place is given back at once, for the sums of the tile after next, behind a fence: the copy engine's writes
    // must not overtake these reads.
    hopper::fence_for_copies();
    arrive_warp(given.empty + given.at * 8);
    given.advance();
    if ((flags & Note::kFinal) == 0) {
      float4* to = reinterpret_cast<float4*>(sums) + static_cast<int64_t>(note.tile) * (kSums / 16) + thread;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        __stcg(to + i * kGroup, make_float4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]));
    } else {
      const Lane lane;
      const uint32_t place = last.stage();
      last.wait_filled();
      const Stored stored{place, lane};
      const TurnedByStored angles{place + kTile64, lane};
      if (lean && told) {
        through_norm_told(d, stored, angles, lane, scale, rho, norms.gains(0), norms.inverse_gains(0),
                          norms.of_queries(lane.warp));
      } else {
        if (turned) {
#pragma unroll
          for (int i = 0; i < 8; ++i) turn_back(d, i, angles(i % 4, i / 4));
        }
        if (normed) through_norm(d, stored, lane, scale, rho, norms.gains(0), norms.of_queries(lane.warp));
      }
      store_rows(place, d, lane, normed ? 1.f : scale, normed ? 1.f : scale);
      hopper::fence_for_copies();
      arrive_warp(last.empty);
      last.advance();
    }
    written.wait_empty();
    arrive_warp(written.filled());
    written.advance();
    if ((flags & Note::kLastOfKeys) != 0) {
      arrive_warp(memory.own.empty + memory.own.at * 8);
      memory.own.advance();
    }
  }
}

/// With norms everything is turned, too; `norms_at`: NormMemory, behind the turns. `lean`: where y tells x, x is not
/// touched.
template <bool normed, bool lean>
__global__ void __launch_bounds__(kRoles, 1)
    kernel(const Shape shape, const __grid_constant__ ColumnMaps maps, const __grid_constant__ CUtensorMap g_q,
           const float* log_sums, const float* dots, const OrderedAngles angles, float* sums, int* added,
           const __grid_constant__ HeadNorms norms, const uint32_t norms_at) {
  SIAMESE_DYNAMIC_MEMORY(dynamic_bytes);
  const uint32_t base = hopper::shared_address(dynamic_bytes), barriers = base + kBarriersAt;
  const Ring ds{barriers, barriers + 16, base, kDs, 2}, given{barriers + 32, barriers + 48, base + kSumsAt, kSums, 2};
  const NormMemory norm_memory{base + norms_at};
  const Ring written{barriers + 64, barriers + 80, 0, 0, 2};
  // Of complete queries: full when the place is free and the angles behind it are here, empty when the results are
  // there.
  const Ring last{barriers + 96, barriers + 104, base + kQueriesAt, kTile64 + kAngles, 1};
  if (threadIdx.x == 0) {
    hopper::barrier_init(last.full, 1), hopper::barrier_init(last.empty, kWarps);
    for (int i = 0; normed && i < 2; ++i) hopper::barrier_init(norm_memory.barrier(i), 1);
    for (int i = 0; i < 16; i += 8) {
      hopper::barrier_init(ds.full + i, 2 * kWarps), hopper::barrier_init(ds.empty + i, kWarps);
      hopper::barrier_init(given.full + i, 1), hopper::barrier_init(given.empty + i, kWarps);
      hopper::barrier_init(written.full + i, kWarps), hopper::barrier_init(written.empty + i, 1);
    }
  }
  const Walk walk(shape);
  const int count = walk.share().write_turns(walk.member(), dynamic_bytes + kTurnsAt) * walk.heads();
  const uint32_t turns = base + kTurnsAt;
  Note* notes = reinterpret_cast<Note*>(dynamic_bytes + kNotesAt);
  NoteOfRows* const notes_of_rows = reinterpret_cast<NoteOfRows*>(dynamic_bytes + norms_at + NormMemory::kNotesAt);
  if (normed) norm_memory.template fill<lean>(norms);
  Memory memory(base + kMemoryAt, 2 * kTile128, kColumnStage, kStages, 2 + kWarps);
  const int group = __shfl_sync(0xffffffffU, threadIdx.x / kGroup, 0);
  const bool told = lean && norm_memory.alike();
  if (group == 0) {
    hopper::leave_registers<24>();
    if (threadIdx.x == 0) feed_columns<true, Walk>(shape, maps, log_sums, dots, memory);
    if (threadIdx.x == 32) fetch_sums<normed>(shape, turns, sums, added, given, notes, notes_of_rows);
    if (threadIdx.x == 64) publish(shape, turns, added, written);
    if (threadIdx.x == 96) finish_queries<normed>(shape, turns, angles, told ? maps.q : norms.q, !told, g_q, last);
  } else if (group == 3) {
    hopper::leave_registers<72>();
    add_up<normed, lean>(count, shape.scale, angles.on(), memory, ds, given, written, last, notes, sums, norms.rho,
                         notes_of_rows, norm_memory, told);
    if (normed) hopper::named_arrive(6, 3 * kGroup);
  } else {
    hopper::take_registers<208>();
    Shared<normed, lean> sink{ds,          base + kKeysAt, group - 1, base + (group - 1) * kTile64, shape, norms,
                              norm_memory, told,           0};
    differentiate_columns<true, Walk>(shape, maps, memory, angles, group - 1, sink);
    if (normed) {
      hopper::named_sync(6, 3 * kGroup);
      norm_memory.leave(norms, static_cast<int>(threadIdx.x) - kGroup, told);
    }
  }
}

}  // namespace at_once
}  // namespace siamese::kernels::attention
