// Shared by the passes before attention over heads of D = 64 or 128 bf16 values: who works on what, how values come.
//
// A head is a row of D/16 lanes. A lane holds columns 8l .. 8l+7 of both halves of its row, so that the pairs which R
// turns lie in one thread: only the norm's sums cross lanes, log2(D/16) shuffles each. A warp works on 512/D rows at a
// time (a unit) and stays with one of q, k, v until all are done: gains and their sums stay in registers. The warps are
// dealt out to q, k, v by their numbers of heads, spread over all blocks. Rows come through a ring in shared memory
// that costs no registers (copy_async16) and, as only the warp itself reads it, no barrier of the block.
//
// What limits the general kernels (qkv_rope.cu) is the number of instructions: 36 a value forward and 44 backward, more
// than a multiprocessor of an H200 issues while memory brings the next value; here 14 and 22.
#pragma once

#include "kernels/cuda/qkv_rope.h"

namespace siamese::kernels::rows {

/// n / d for n < 2³¹ as a product: division by a number known at run time takes twenty instructions.
struct Division {
  unsigned d = 1, factor = 1, shift = 0;

  Division() = default;
  explicit Division(unsigned divisor) : d(divisor) {
    while ((1ULL << shift) < d) ++shift;
    factor = static_cast<unsigned>((((1ULL << shift) - d) << 32) / d + 1);
  }
  __device__ __forceinline__ unsigned operator()(unsigned n) const { return (__umulhi(factor, n) + n) >> shift; }
};

/// A call and how its rows are dealt out: the warps from first_warp[p] to first_warp[p + 1] work on part p, and take
/// `run` neighbouring units in turn.
struct Plan {
  QkvRope p;
  Division by_length, by_heads[3];
  int first_warp[4] = {}, run[3] = {}, jump[3] = {}, units[3] = {};  // jump: from the end of a run to the next
};

/// Held: the angles stay in registers from one unit to the next. Blocks: as many on a multiprocessor.
template <int kD, bool kLayer, bool kHeld, int kThreads, int kBlocks, int kStages>
struct Config {
  static constexpr int D = kD, lanes = kD / 16, rows = 512 / kD, threads = kThreads, blocks = kBlocks, stages = kStages;
  static constexpr bool layer = kLayer, held = kHeld;
};

struct Place {
  int warp, lane, row, column;  // row of the unit; column: 8-value piece of half a row

  template <class C>
  __device__ static Place of(C) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return {static_cast<int>(threadIdx.x) / 32, lane, lane / C::lanes, lane % C::lanes};
  }
};

/// Which part a warp of this block works on, and as the how-many-th.
struct Share {
  int part, index;

  __device__ Share(const Plan& plan, int warp) {
    const int at = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
    part = at < plan.first_warp[1] ? kQuery : at < plan.first_warp[2] ? kKey : kValue;
    index = at - (part == kQuery ? 0 : part == kKey ? plan.first_warp[1] : plan.first_warp[2]);
  }
};

/// The units of a warp in their order.
template <int part>
class Units {
 public:
  __device__ Units(const Plan& plan, int index) : unit_(index * plan.run[part]), left_(plan.run[part]) {}
  __device__ __forceinline__ bool more(const Plan& plan) const { return unit_ < plan.units[part]; }
  __device__ __forceinline__ unsigned unit() const { return static_cast<unsigned>(unit_); }
  __device__ __forceinline__ void next(const Plan& plan) {
    ++unit_;
    if (--left_ == 0) left_ = plan.run[part], unit_ += plan.jump[part];
  }

 private:
  int unit_, left_;
};

/// Where the two 16-byte pieces that this lane loads and stores lie: half a head apart, the first is columns `column`
/// .. of `head` (of the part).
template <class C, int part>
struct Spot {
  unsigned token, batch, position;
  int head, column;
  bool there;

  __device__ __forceinline__ Spot(const Plan& plan, unsigned unit, const Place& at) {
    const unsigned row = unit * C::rows + static_cast<unsigned>(at.row);
    const Division& by_heads = plan.by_heads[part];
    token = by_heads(row);
    head = static_cast<int>(row - token * by_heads.d);
    batch = plan.by_length(token);
    position = token - batch * plan.by_length.d;
    column = 8 * at.column;
    there = token < static_cast<unsigned>(plan.p.tokens);
  }
  /// In the packed projection.
  __device__ __forceinline__ int64_t packed(const QkvRope& p) const {
    const int first = part == kQuery ? 0 : part == kKey ? p.heads : p.heads + p.kv_heads;
    return static_cast<int64_t>(static_cast<int>(token) * (p.heads + 2 * p.kv_heads) + first + head) * C::D + column;
  }
  /// In the part's gradient.
  __device__ __forceinline__ int64_t strided(const QkvRope& p) const {
    return batch * p.batch_stride[part] + position * p.token_stride[part] + head * p.head_stride[part] + column;
  }
};
}  // namespace siamese::kernels::rows
