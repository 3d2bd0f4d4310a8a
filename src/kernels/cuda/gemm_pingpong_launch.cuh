// Launching a product of gemm_pingpong.cuh or gemm_woven.cuh: as many clusters as run at once, its matrices in boxes.
#pragma once

#include <atomic>
#include <type_traits>

#include "kernels/cuda/cluster_launch.h"
#include "kernels/cuda/gemm_woven.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/woven.h"

namespace siamese::kernels {

template <class Epilogue>
bool take_woven(Woven which, int64_t k) {
  return woven_wanted(which) && woven_serves<Epilogue>(k);
}

template <class Epilogue>
constexpr auto product_kernel() {
  if constexpr (Epilogue::kWoven) {
    return woven_kernel<Epilogue>;
  } else {
    return pingpong_kernel<Epilogue>;
  }
}

template <class Epilogue>
using ShapeFor = std::conditional_t<Epilogue::kWoven, WovenShape, PingpongShape>;

template <class Epilogue>
cudaError_t pingpong_launch(const ShapeFor<Epilogue>& shape, const CUtensorMap& a, const CUtensorMap& b,
                            const typename Epilogue::Maps& maps, cudaStream_t stream) {
  static std::atomic<int> known[64] = {};  // clusters at once, by device
  constexpr int bytes = static_cast<int>(PingpongMemory<Epilogue>::kBytes);
  const auto kernel = product_kernel<Epilogue>();
  int device = 0;
  if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  int clusters = known[device % 64];
  if (clusters == 0) {
    ClusterLaunch pairs(2, kPingpongThreads, bytes, stream);
    if (const cudaError_t e = pairs.resident(kernel, &clusters); e != cudaSuccess) return e;
    if (clusters < 1) return cudaErrorInvalidConfiguration;
    known[device % 64] = clusters;
  }
  bool shared = false;  // tiles that make no whole turn
  if constexpr (Epilogue::kWoven) shared = shape.partial != nullptr;
  const int work = shared ? clusters : min(clusters, shape.pairs_m * shape.tiles_n);
  // The kernel itself says that its blocks go in pairs.
  kernel<<<2 * work, kPingpongThreads, bytes, stream>>>(shape, a, b, maps);
  return cudaGetLastError();
}

inline int up(int64_t n, int64_t by) { return static_cast<int>((n + by - 1) / by); }

/// The matrix [m, f] from column `first` of a matrix of rows of `stride` values, in boxes.
struct Boxes {
  int rows, columns;
  Swizzle swizzle;

  bool operator()(CUtensorMap* map, const void* p, int64_t first, int64_t m, int64_t f, int64_t stride) const {
    return make_map(map, static_cast<const char*>(p) + 2 * first, m, f, stride, rows, columns, swizzle);
  }
};

}  // namespace siamese::kernels
