// Shared by the tile kernels of hc_dynamic (two streams, bf16): where threads and memory lie, how rows come, sums.
//
// A block is G groups of T = d/8 threads and stays on its multiprocessor until all tokens are done. A group works on
// tiles of R whole tokens, each thread on the same 8 columns of all of them, so that gains and column sums stay in
// registers. Rows come by the copy engine, a token's numbers (maps, statistics) with them: what limits the kernels that
// give a block a token (hyper_row.cuh) is that a block waits for its one token.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/hyper_lanes.cuh"
#include "kernels/cuda/step_tile.cuh"

namespace siamese::kernels::hyper {

using tile::Place;  // threads of a group along x, groups along y
using Lane = MapLane<2>;
using Row = Wide<1>;               // a thread's columns of a row
using Packed = Pieces<bfloat, 1>;  // the same in memory

constexpr int kStages = 2;  // tiles of a group in shared memory; three and more are no faster
constexpr int kSums = 10;   // the most a token's threads exchange at once

/// Byte offsets of the shared memory's parts, barriers first; `stage` the bytes of a tile: `rows` of d and `numbers` a
/// token.
struct Layout {
  int exchange, weights, ring, stage, bytes;
  __host__ __device__ Layout(int rows, int numbers, int R, int d, int groups)
      : exchange(up(groups * kStages * 8)),
        weights(exchange + up(groups * 2 * fours(d / 256) * 4 * kSums * R * 4)),
        ring(weights + Lane::kParts * d * 4),
        stage(rows * R * d * 2 + up(numbers * R * 4)),
        bytes(ring + groups * kStages * stage) {}
  __host__ __device__ static constexpr int up(int bytes) { return (bytes + 127) / 128 * 128; }
  __host__ __device__ static constexpr int fours(int warps) { return (warps + 3) / 4; }
};

/// Sums over a group's threads through shared memory: give, sync, take, turn. Two buffers in turn, so that one barrier
/// suffices. The warps' parts of a sum lie side by side, filled up with zeros to fours.
class Exchange {
 public:
  /// A barrier of the block must follow.
  __device__ Exchange(char* memory, int sums, const Place& at)
      : at_(at), fours_(Layout::fours(at.warps)), stride_(4 * fours_ * sums) {
    buffer_ = reinterpret_cast<float*>(memory) + 2 * at.group * stride_;
    for (int i = at.thread; i < 2 * stride_; i += at.threads) buffer_[i] = 0.f;
  }
  /// M sums from number `first` on.
  template <int M>
  __device__ __forceinline__ void give(int first, float (&v)[M]) {
    const float mine = warp_sums(v);
    if (at_.lane % (32 / M) == 0) now()[4 * fours_ * (first + at_.lane / (32 / M)) + at_.warp] = mine;
  }
  __device__ __forceinline__ void sync() const { hopper::named_sync(at_.group + 1, at_.threads); }
  __device__ __forceinline__ float take(int which) const {
    const float4* const parts = reinterpret_cast<const float4*>(now()) + fours_ * which;
    float sum = 0.f;
#pragma unroll 1
    for (int i = 0; i < fours_; ++i) {
      const float4 v = parts[i];
      sum += (v.x + v.y) + (v.z + v.w);
    }
    return sum;
  }
  __device__ __forceinline__ void turn() { turn_ ^= 1; }

 private:
  __device__ __forceinline__ float* now() const { return buffer_ + turn_ * stride_; }
  Place at_;
  int fours_, stride_, turn_ = 0;
  float* buffer_;
};

/// The tiles of a group, fetched by its first warp. `Source` says what a token has: `kInputs` tensors of count(k) rows
/// each, from(k) on, kRows in all; `kNumbers` floats, number(token, j) the address of one.
template <int R, class Source>
class Tiles {
 public:
  __device__ Tiles(char* memory, const Layout& lie, int64_t tokens, int d, const Source& source, const Place& at)
      : at_(at), source_(source), row_bytes_(2 * d), stage_bytes_(lie.stage) {
    static_assert(Source::kNumbers * R <= 32);
    ring_ = memory + lie.ring + at.group * kStages * lie.stage;
    full_ = hopper::shared_address(memory) + static_cast<unsigned>(at.group * kStages * 8);
    stride_ = static_cast<int>(gridDim.x) * at.groups;
    tile_ = static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) * at.group;
    count_ = static_cast<int>(tokens / R);
    if (at.thread == 0) {
      for (int s = 0; s < kStages; ++s) hopper::barrier_init(barrier(s), 33);  // a warp, and who asks for the rows
      hopper::barrier_init_done();
    }
    __syncthreads();
    for (int s = 0; s < kStages && tile_ + s * stride_ < count_; ++s) fetch(tile_ + s * stride_, s);
  }
  __device__ __forceinline__ bool more() const { return tile_ < count_; }
  __device__ __forceinline__ void wait() const { hopper::barrier_wait(barrier(stage_), phase_); }
  /// This thread's columns of row `row` of the tile: all tokens' rows of the first tensor, then of the next.
  __device__ __forceinline__ Packed get(int row) const {
    return {{fetch8(reinterpret_cast<const bfloat*>(here() + row * row_bytes_) + 8 * at_.thread)}};
  }
  /// The numbers of the tile's token t.
  __device__ __forceinline__ const float* numbers(int t) const {
    return reinterpret_cast<const float*>(here() + Source::kRows * R * row_bytes_) + t * Source::kNumbers;
  }
  __device__ __forceinline__ int64_t token() const { return static_cast<int64_t>(tile_) * R; }
  /// All threads of the group have read this tile: another one takes its place.
  __device__ __forceinline__ void refill() const {
    if (tile_ + kStages * stride_ < count_) fetch(tile_ + kStages * stride_, stage_);
  }
  __device__ __forceinline__ void next() {
    tile_ += stride_;
    if (++stage_ == kStages) stage_ = 0, phase_ ^= 1;
  }

 private:
  __device__ __forceinline__ uint32_t barrier(int s) const { return full_ + 8 * static_cast<unsigned>(s); }
  __device__ __forceinline__ const char* here() const { return ring_ + stage_ * stage_bytes_; }
  __device__ __forceinline__ void fetch(int tile, int s) const {
    if (at_.warp != 0) return;
    const int64_t token = static_cast<int64_t>(tile) * R;
    char* to = ring_ + s * stage_bytes_;
    const int rows = Source::kRows * R * row_bytes_;
    if (at_.lane < Source::kNumbers * R)
      copy_async4(to + rows + 4 * at_.lane,
                  source_.number(token + at_.lane / Source::kNumbers, at_.lane % Source::kNumbers));
    copy_async_arrive(barrier(s));
    if (at_.lane != 0) return;
    hopper::barrier_expect(barrier(s), static_cast<unsigned>(rows));
#pragma unroll
    for (int k = 0; k < Source::kInputs; ++k) {
      const int bytes = Source::count(k) * row_bytes_;
      copy_bulk(hopper::shared_address(to), static_cast<const char*>(source_.from(k)) + token * bytes,
                static_cast<unsigned>(bytes * R), barrier(s));
      to += bytes * R;
    }
  }
  Place at_;
  Source source_;
  char* ring_;
  int row_bytes_, stage_bytes_, stride_, tile_, count_, stage_ = 0;
  uint32_t full_, phase_ = 0;
};

}  // namespace siamese::kernels::hyper
