#include "kernels/cuda/gemm_qkv_norm.h"

#include "kernels/cuda/gemm_pingpong_launch.cuh"
#include "kernels/cuda/qkv_woven.cuh"

namespace siamese::kernels {
namespace {

template <class E>
cudaError_t forward(const GemmQkvNorm& call, cudaStream_t stream) {
  if (call.length < 1 || call.length > INT32_MAX / 32) return cudaErrorInvalidValue;
  const int64_t kept = (call.heads + call.kv_heads) * E::kHead, n = kept + call.kv_heads * E::kHead;
  CUtensorMap a, b;
  typename E::Maps maps{};
  maps.table = {call.cos, call.sin, static_cast<int>(call.length), static_cast<int>(call.heads + call.kv_heads)};
  for (int i = 0; i < 3; ++i) maps.gain[i] = static_cast<const bfloat*>(call.gain[i]);
  maps.rho = call.rho, maps.eps = call.eps;
  maps.queries = static_cast<int>(call.heads), maps.tokens = static_cast<int>(call.m);
  const Boxes of_a{kTileM, kDepth, Swizzle::bytes128}, of_b{E::kTileN / 2, kDepth, Swizzle::bytes128};
  const Boxes of_out{64, E::kHead, Swizzle::bytes128};
  if (!of_a(&a, call.x, 0, call.m, call.k, call.k) || !of_b(&b, call.w, 0, n, call.k, call.k) ||
      !of_out(&maps.out, call.out, 0, call.m, n, n) || !of_out(&maps.raw, call.raw, 0, call.m, kept, kept))
    return cudaErrorInvalidValue;
  return pingpong_launch<E>({up(call.m, 2 * kTileM), up(n, E::kTileN), up(call.k, kDepth), 0}, a, b, maps, stream);
}

template <bool lean>
cudaError_t by_form(const GemmQkvNorm& call, cudaStream_t stream) {
  return take_woven<WovenNorm<lean>>(Woven::qkv, call.k) ? forward<WovenNorm<lean>>(call, stream)
                                                         : forward<QkvNormEpilogue<lean>>(call, stream);
}

}  // namespace

cudaError_t gemm_qkv_norm_forward(const GemmQkvNorm& call, cudaStream_t stream) {
  return call.lean ? by_form<true>(call, stream) : by_form<false>(call, stream);
}

}  // namespace siamese::kernels
