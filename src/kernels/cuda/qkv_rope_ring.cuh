// Rows of the pass before attention on their way between global memory and the lanes that hold them.
#pragma once

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/qkv_rope_plan.cuh"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels::rows {

/// A lane's values of a row: eight of the first half, and those R turns them with, of the second.
struct Halves {
  Float8 a, b;
};
struct RawHalves {
  Raw8<bfloat> a, b;
};
__device__ __forceinline__ Halves widen(const RawHalves& r) { return {kernels::widen(r.a), kernels::widen(r.b)}; }
/// Keeps the compiler from widening once before the loop, into twice as many registers.
__device__ __forceinline__ void stay_narrow(RawHalves& r) {
  asm volatile("" : "+r"(r.a.bits.x), "+r"(r.a.bits.y), "+r"(r.a.bits.z), "+r"(r.a.bits.w));
  asm volatile("" : "+r"(r.b.bits.x), "+r"(r.b.bits.y), "+r"(r.b.bits.z), "+r"(r.b.bits.w));
}

/// Tiles of K inputs under way for one warp: 64 pieces of 16 bytes each. Pieces lie so that no two of eight
/// neighbouring lanes meet in a bank, whether they write or read them.
template <class C, int K>
class Ring {
 public:
  static constexpr int kBytes = C::stages * K * 1024;

  __device__ Ring(char* memory, const Place& at)
      : mine_(reinterpret_cast<uint4*>(memory) + at.warp * (kBytes / 16) + at.lane) {}
  /// Input k of the tile that is fetched next.
  __device__ __forceinline__ void fetch(int k, const bfloat* from, bool there) {
    copy_async16(mine_ + (head_ * K + k) * 64, from, there);
    copy_async16(mine_ + (head_ * K + k) * 64 + 32, from + C::D / 2, there);
  }
  __device__ __forceinline__ void fetched() {
    copy_async_commit();
    if (++head_ == C::stages) head_ = 0;
  }
  /// Until the oldest tile is there, when stages - 1 of them have been fetched since the last one was taken.
  __device__ __forceinline__ void wait() const { copy_async_wait_but<C::stages - 2>(); }
  __device__ __forceinline__ RawHalves get(int k) const {
    const uint4* tile = mine_ + (tail_ * K + k) * 64;
    return {{tile[0]}, {tile[32]}};
  }
  __device__ __forceinline__ void taken() {
    if (++tail_ == C::stages) tail_ = 0;
  }

 private:
  uint4* mine_;
  int head_ = 0, tail_ = 0;
};

/// The lane's two pieces of a row to memory.
template <class C>
__device__ __forceinline__ void put(bfloat* to, const Halves& x, bool there) {
  if (!there) return;
  *reinterpret_cast<uint4*>(to) = narrow(x.a, bfloat{}).bits;
  *reinterpret_cast<uint4*>(to + C::D / 2) = narrow(x.b, bfloat{}).bits;
}

}  // namespace siamese::kernels::rows
