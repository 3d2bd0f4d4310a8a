#include "kernels/cuda/gemm_swiglu.h"

#include "kernels/cuda/gemm_pingpong_launch.cuh"
#include "kernels/cuda/swiglu_epilogue.cuh"
#include "kernels/cuda/swiglu_woven.cuh"

namespace siamese::kernels {
namespace {

template <class E>
cudaError_t forward(const void* x, const void* w, void* p, void* h, int64_t m, int64_t f, int64_t k,
                    cudaStream_t stream) {
  CUtensorMap a, b;
  typename E::Maps maps;
  const Boxes of_a{kTileM, kDepth, Swizzle::bytes128}, of_b{E::kHalf, kDepth, Swizzle::bytes128};
  const Boxes out{64, E::kColumns, E::kWoven ? Swizzle::bytes64 : Swizzle::none};
  if (!of_a(&a, x, 0, m, k, k) || !of_b(&b, w, 0, 2 * f, k, k) || !out(&maps.value, p, 0, m, f, 2 * f) ||
      !out(&maps.gate, p, f, m, f, 2 * f) || !out(&maps.h, h, 0, m, f, f))
    return cudaErrorInvalidValue;
  return pingpong_launch<E>({up(m, 2 * kTileM), up(f, E::kHalf), up(k, kDepth), static_cast<int>(f)}, a, b, maps,
                            stream);
}

template <class E>
cudaError_t backward(const void* g, const void* v, const void* p, void* g_p, void* h, int64_t m, int64_t f, int64_t k,
                     cudaStream_t stream) {
  CUtensorMap a, b;
  typename E::Maps maps;
  const Boxes of_a{kTileM, kDepth, Swizzle::bytes128}, of_b{kDepth, 64, Swizzle::bytes128};
  const Boxes out{E::kWoven ? 64 : kTileM, E::kColumns, Swizzle::bytes64};
  if (!of_a(&a, g, 0, m, k, k) || !of_b(&b, v, 0, k, f, f) || !out(&maps.value, p, 0, m, f, 2 * f) ||
      !out(&maps.gate, p, f, m, f, 2 * f) || !out(&maps.g_value, g_p, 0, m, f, 2 * f) ||
      !out(&maps.g_gate, g_p, f, m, f, 2 * f) || !out(&maps.h, h, 0, m, f, f))
    return cudaErrorInvalidValue;
  return pingpong_launch<E>({up(m, 2 * kTileM), up(f, E::kTileN), up(k, kDepth), 0}, a, b, maps, stream);
}

}  // namespace

bool gemm_swiglu_serves(int64_t m, int64_t f, int64_t k) {
  constexpr int64_t most = int64_t{1} << 30;
  return hopper_serves() && m > 0 && m < most && f > 0 && f < most && k > 0 && k < most && f % 8 == 0 &&
         k % kDepth == 0;
}

cudaError_t gemm_swiglu_forward(const void* x, const void* w, void* p, void* h, int64_t m, int64_t f, int64_t k,
                                cudaStream_t stream) {
  return take_woven<WovenForward>(Woven::swiglu, k) ? forward<WovenForward>(x, w, p, h, m, f, k, stream)
                                                    : forward<ForwardEpilogue>(x, w, p, h, m, f, k, stream);
}

cudaError_t gemm_swiglu_backward(const void* g, const void* v, const void* p, void* g_p, void* h, int64_t m, int64_t f,
                                 int64_t k, cudaStream_t stream) {
  return take_woven<WovenBackward>(Woven::swiglu_backward, k)
             ? backward<WovenBackward>(g, v, p, g_p, h, m, f, k, stream)
             : backward<BackwardEpilogue>(g, v, p, g_p, h, m, f, k, stream);
}

}  // namespace siamese::kernels
