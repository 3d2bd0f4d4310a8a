#include "kernels/cuda/gemm_wide.h"

#include "kernels/cuda/gemm_pingpong_launch.cuh"
#include "kernels/cuda/gemm_wide.cuh"
#include "kernels/cuda/processors.h"

namespace siamese::kernels {
namespace {

template <bool m_fastest, bool n_fastest>
cudaError_t launch(const GemmWide& g, cudaStream_t stream) {
  using E = WovenPlain<m_fastest, n_fastest>;
  CUtensorMap a, b;
  typename E::Maps maps;
  // Where k runs fastest a box has 64 of it and many rows, otherwise 64 rows of k and 64 columns.
  const Boxes of_a{m_fastest ? kDepth : kTileM, 64, Swizzle::bytes128};
  const Boxes of_b{n_fastest ? kDepth : E::kTileN / 2, 64, Swizzle::bytes128};
  const Boxes of_out{64, E::kColumns, Swizzle::bytes128};
  if (!(m_fastest ? of_a(&a, g.a, 0, g.k, g.m, g.m) : of_a(&a, g.a, 0, g.m, g.k, g.k)) ||
      !(n_fastest ? of_b(&b, g.b, 0, g.k, g.n, g.n) : of_b(&b, g.b, 0, g.n, g.k, g.k)) ||
      !of_out(&maps.out, g.out, 0, g.m, g.n, g.n))
    return cudaErrorInvalidValue;
  const PingpongShape tiles{up(g.m, 2 * kTileM), up(g.n, E::kTileN), up(g.k, kDepth), 0};
  return pingpong_launch<E>({tiles, g.partial, g.told}, a, b, maps, stream);
}

}  // namespace

bool gemm_wide_serves(const GemmWide& g) {
  constexpr int64_t most = int64_t{1} << 30;
  for (const int64_t size : {g.m, g.n, g.k})
    if (size < 1 || size >= most || size % 8 != 0) return false;
  return hopper_serves() && !(g.transpose_a && g.transpose_b) && woven_serves<WovenPlain<false, false>>(g.k);
}

int64_t gemm_wide_scratch() {
  int blocks = 0;
  return count_processors(&blocks) == cudaSuccess ? int64_t{blocks} * (kTileM * kWovenColumns * 4) : 0;
}

cudaError_t gemm_wide(const GemmWide& g, cudaStream_t stream) {
  return g.transpose_a   ? launch<true, true>(g, stream)
         : g.transpose_b ? launch<false, false>(g, stream)
                         : launch<false, true>(g, stream);
}

}  // namespace siamese::kernels
