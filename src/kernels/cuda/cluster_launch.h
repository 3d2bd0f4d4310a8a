// Launching kernels whose blocks form clusters.
#pragma once

#include <cuda_runtime.h>

namespace siamese::kernels {

/// A launch of blocks in clusters of `ranks`; `clusters` of them once it is known how many.
struct ClusterLaunch {
  cudaLaunchAttribute size{};
  cudaLaunchConfig_t config{};
  unsigned ranks;

  ClusterLaunch(int ranks_in_cluster, int threads, int bytes, cudaStream_t stream)
      : ranks(static_cast<unsigned>(ranks_in_cluster)) {
    size.id = cudaLaunchAttributeClusterDimension;
    size.val.clusterDim.x = ranks, size.val.clusterDim.y = size.val.clusterDim.z = 1;
    config.gridDim = dim3(ranks), config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(bytes), config.stream = stream;
    config.attrs = &size, config.numAttrs = 1;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;  // the configuration points to the size
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;

  /// How many run at once, the kernel's shared memory allowed. A cluster that had to wait for another to end would
  /// double the time of work that is dealt out among all.
  template <class Kernel>
  cudaError_t resident(Kernel kernel, int* clusters) {
    const int bytes = static_cast<int>(config.dynamicSmemBytes);
    if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        e != cudaSuccess)
      return e;
    return cudaOccupancyMaxActiveClusters(clusters, kernel, &config);
  }
  template <class... Formal, class... Actual>
  cudaError_t run(void (*kernel)(Formal...), int clusters, const Actual&... arguments) {
    config.gridDim.x = static_cast<unsigned>(clusters) * ranks;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
  }
};

}  // namespace siamese::kernels
