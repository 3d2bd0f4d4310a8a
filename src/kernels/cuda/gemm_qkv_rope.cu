#include "kernels/cuda/gemm_qkv_rope.h"

#include "kernels/cuda/gemm_pingpong_launch.cuh"
#include "kernels/cuda/qkv_woven.cuh"

namespace siamese::kernels {
namespace {

template <class E>
cudaError_t forward(const void* x, const void* w, const RopeTable& table, void* out, int64_t m, int64_t n, int64_t k,
                    cudaStream_t stream) {
  CUtensorMap a, b;
  typename E::Maps maps{{}, table};
  const Boxes of_a{kTileM, kDepth, Swizzle::bytes128}, of_b{E::kTileN / 2, kDepth, Swizzle::bytes128};
  const Boxes of_out{64, E::kHead, Swizzle::bytes128};
  if (!of_a(&a, x, 0, m, k, k) || !of_b(&b, w, 0, n, k, k) || !of_out(&maps.out, out, 0, m, n, n))
    return cudaErrorInvalidValue;
  return pingpong_launch<E>({up(m, 2 * kTileM), up(n, E::kTileN), up(k, kDepth), 0}, a, b, maps, stream);
}

}  // namespace

bool gemm_qkv_rope_serves(int64_t m, int64_t heads, int64_t kv_heads, int64_t k) {
  constexpr int64_t most = int64_t{1} << 30;
  return hopper_serves() && m > 0 && m < most && heads > 0 && kv_heads > 0 && heads + 2 * kv_heads < most / 64 &&
         k > 0 && k < most && k % kDepth == 0;
}

cudaError_t gemm_qkv_rope_forward(const void* x, const void* w, const float* cos, const float* sin, void* out,
                                  int64_t m, int64_t length, int64_t heads, int64_t kv_heads, int64_t k,
                                  cudaStream_t stream) {
  if (length < 1 || length > INT32_MAX / 32) return cudaErrorInvalidValue;
  const int64_t n = (heads + 2 * kv_heads) * 64;
  const RopeTable table{cos, sin, static_cast<int>(length), static_cast<int>(heads + kv_heads)};
  return take_woven<WovenRope>(Woven::qkv, k) ? forward<WovenRope>(x, w, table, out, m, n, k, stream)
                                              : forward<QkvRopeEpilogue<3>>(x, w, table, out, m, n, k, stream);
}

}  // namespace siamese::kernels
