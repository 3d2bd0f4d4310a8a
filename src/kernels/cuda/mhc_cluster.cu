// mhc's forward step in one launch (mhc_ring.cuh): which calls it serves, and its launch.
//
// Measured on an H200, 32,768 tokens of d = 1024: 307 µs, 52 % of a copy of as many bytes; with weights packed, sums
// read through the cluster and the maps a kernel of their own (mhc_forward.cu) 408 µs. 12, 8 and 6 places in the ring:
// 307, 307 and 316 µs.
#include "kernels/cuda/cluster_launch.h"
#include "kernels/cuda/mhc_cluster_read.cuh"

namespace siamese::kernels {

// The maps of a tile take one warp longer than the tile's rows take the block (some 2 µs against 1, estimated from the
// latency of 20 rounds): with d/128 blocks in turn that goes unnoticed, with one or two it would not.
constexpr int kLeastWidth = 384, kMostWidth = ring::kBlockColumns * ring::kMostRanks;

bool mhc_forward_by_clusters(const MhcForwardCuda& call, const MhcMapsCuda& maps, cudaStream_t stream,
                             cudaError_t* error) {
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
  *error = launch.run(ring::mhc_cluster_kernel, resident < tiles ? resident : tiles, call, maps, stages);
  return true;
}

}  // namespace siamese::kernels
