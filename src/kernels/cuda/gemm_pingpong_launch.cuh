// Launching a product of gemm_pingpong.cuh: as many clusters as run at once, its matrices in boxes.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/cluster_launch.h"
#include "kernels/cuda/gemm_pingpong.cuh"
#include "kernels/cuda/tensor_map.h"

namespace siamese::kernels {

inline int up(int64_t n, int64_t by) { return static_cast<int>((n + by - 1) / by); }

/// The matrix [m, f] from column `first` of a matrix of rows of `stride` values, in boxes.
struct Boxes {
  int rows, columns;
  Swizzle swizzle;

  bool operator()(CUtensorMap* map, const void* p, int64_t first, int64_t m, int64_t f, int64_t stride) const {
    return make_map(map, static_cast<const char*>(p) + 2 * first, m, f, stride, rows, columns, swizzle);
  }
};

/// The rows of the product: A [m, k].
struct PingpongRows {
  const void* a;
  int64_t m, k;
};

template <class Epilogue, int across>
cudaError_t pingpong_run(const PingpongShape& shape, const PingpongRows& rows, const CUtensorMap& b,
                         const typename Epilogue::Maps& maps, cudaStream_t stream) {
  static std::atomic<int> known[64] = {};  // clusters at once, by device
  constexpr int bytes = static_cast<int>(PingpongMemory<Epilogue>::kBytes);
  auto kernel = pingpong_kernel<Epilogue, across>;
  CUtensorMap a;
  const Boxes of_a{kTileM / across, kDepth, Swizzle::bytes128};
  if (!of_a(&a, rows.a, 0, rows.m, rows.k, rows.k)) return cudaErrorInvalidValue;
  int device = 0;
  if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  int clusters = known[device % 64];
  if (clusters == 0) {
    ClusterLaunch cluster(2 * across, kPingpongThreads, bytes, stream);
    if (const cudaError_t e = cluster.resident(kernel, &clusters); e != cudaSuccess) return e;
    if (clusters < 1) return cudaErrorInvalidConfiguration;
    known[device % 64] = clusters;
  }
  // The kernel itself says how many blocks a cluster has.
  kernel<<<2 * across * min(clusters, shape.pairs_m * shape.groups_n<across>()), kPingpongThreads, bytes, stream>>>(
      shape, a, b, maps);
  return cudaGetLastError();
}

/// SIAMESE_CLUSTERS_OF_FOUR=1: two by two blocks share A and B, which reads a third less from L2 but leaves some
/// multiprocessors without work where a GPU has groups of them that four do not divide. Off until it has been measured.
inline bool pingpong_by_four() {
  static const bool wanted = [] {
    const char* given = std::getenv("SIAMESE_CLUSTERS_OF_FOUR");
    return given != nullptr && std::strcmp(given, "1") == 0;
  }();
  return wanted;
}

template <class Epilogue>
cudaError_t pingpong_launch(const PingpongShape& shape, const PingpongRows& rows, const CUtensorMap& b,
                            const typename Epilogue::Maps& maps, cudaStream_t stream) {
  return pingpong_by_four() && shape.tiles_n % 2 == 0 ? pingpong_run<Epilogue, 2>(shape, rows, b, maps, stream)
                                                      : pingpong_run<Epilogue, 1>(shape, rows, b, maps, stream);
}

}  // namespace siamese::kernels
