// mhc's forward step by a ring of tiles (mhc_ring.cuh): which calls it serves, and its launch. Measured on an H200,
// 32,768 tokens of d = 1024, with the kernel of the maps: 217 µs, 74 % of a copy of as many bytes; by mhc_forward.cu
// 408.
#include "kernels/cuda/cluster_launch.h"
#include "kernels/cuda/mhc_cluster_read.cuh"

namespace siamese::kernels {

// The ring may have two places a block of the cluster (mhc_ring.cuh): with fewer than three blocks it would be too
// short for the way to memory and back.
constexpr int kLeastWidth = 384, kMostWidth = ring::kBlockColumns * ring::kMostRanks;

bool mhc_forward_by_clusters(const MhcForwardCuda& call, cudaStream_t stream, cudaError_t* error) {
  const MhcSizes& sizes = call.sizes;
  if (!mhc_forward_runs(sizes) || sizes.d % ring::kBlockColumns != 0 || sizes.d < kLeastWidth || sizes.d > kMostWidth ||
      sizes.tokens == 0 || sizes.tokens % kTileTokens != 0 || sizes.tokens > INT32_MAX / 16)
    return false;
  const int ranks = sizes.d / ring::kBlockColumns;
  const int stages = 2 * ranks < ring::kMostStages ? 2 * ranks : ring::kMostStages;
  const int tiles = static_cast<int>(sizes.tokens / kTileTokens), bytes = ring::bytes(stages);
  int device = 0, most = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess || bytes > most)
    return false;
  ClusterLaunch launch(ranks, ring::kThreads, bytes, stream);
  int resident = 0;
  *error = launch.resident(ring::mhc_cluster_kernel, &resident);
  if (*error != cudaSuccess) return true;
  if (resident < 1) return false;
  *error = launch.run(ring::mhc_cluster_kernel, resident < tiles ? resident : tiles, call, stages);
  return true;
}

}  // namespace siamese::kernels
