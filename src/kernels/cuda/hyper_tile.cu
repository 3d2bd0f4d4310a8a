// The step of hc_dynamic by tiles: which calls it serves, and how they are launched.
//
// Measured on an H200, 32,768 tokens of d = 1024, in microseconds and percent of a copy of as many bytes (a block a
// token in brackets): forward 108.5, 90 (129.3, 75); backward with its sums 162.6, 89 (207.4, 70).
#include "kernels/cuda/hyper_tile.h"

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/hyper_tile_backward.cuh"
#include "kernels/cuda/hyper_tile_forward.cuh"

namespace siamese::kernels {
namespace {

using namespace hyper;

/// Groups and bytes of a block; blocks of the launch.
struct Shape {
  int groups = 0, bytes = 0, blocks = 0;
};

/// As many groups in a block of at most `most` threads as this device's shared memory has room for; false where there
/// is no shape.
template <class Source, int R>
bool shape_for(int64_t tokens, int d, int most, Shape* out) {
  const int threads = d / 8, named_barriers = 15;
  if (d % 256 != 0 || threads > most || tokens == 0 || tokens % R != 0 || tokens >= (int64_t{1} << 30)) return false;
  int device = 0, processors = 0, memory = 0;
  if (!built_for_hopper() || cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return false;
  const int64_t tiles = tokens / R;
  out->blocks = static_cast<int>(tiles < processors ? tiles : processors);
  for (out->groups = most / threads < named_barriers ? most / threads : named_barriers; out->groups > 0;
       --out->groups) {
    out->bytes = Layout(Source::kRows, Source::kNumbers, R, d, out->groups).bytes;
    if (out->bytes <= memory) return true;
  }
  return false;
}

template <class Call>
cudaError_t launch(void (*kernel)(Call), const Call& call, const Shape& shape, cudaStream_t stream) {
  if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.bytes);
      e != cudaSuccess)
    return e;
  kernel<<<static_cast<unsigned>(shape.blocks),
           dim3(static_cast<unsigned>(call.d / 8), static_cast<unsigned>(shape.groups)),
           static_cast<size_t>(shape.bytes), stream>>>(call);
  return cudaGetLastError();
}

}  // namespace

bool hyper_forward_by_tiles(const HyperForwardCuda& call, cudaStream_t stream, cudaError_t* error) {
  const bool served = call.bf16 && call.n == 2 && call.kind == HyperRead::dynamic && call.norm &&
                      call.stream_stride == call.d && call.token_stride == 2 * call.d && call.residual != nullptr &&
                      call.write != nullptr && call.r != nullptr && call.h_out != nullptr && call.z != nullptr &&
                      call.residual_out != nullptr && call.write_out != nullptr && call.saved != nullptr &&
                      call.squares == nullptr;
  Shape shape;
  if (!served || !shape_for<ForwardSource, 1>(call.tokens, call.d, kForwardThreads, &shape)) return false;
  *error = launch<HyperForwardCuda>(forward_kernel, call, shape, stream);
  return true;
}

bool hyper_backward_by_tiles(const HyperBackwardCuda& call, int* parts, cudaStream_t stream, cudaError_t* error) {
  const bool served = call.bf16 && call.n == 2 && call.kind == HyperRead::dynamic && call.norm && call.h != nullptr &&
                      call.g_mixed != nullptr && call.g_z != nullptr && call.g_write != nullptr &&
                      call.write != nullptr && call.r != nullptr && call.saved != nullptr &&
                      call.saved_width == BackwardSource::kSaved && call.saved_rho == BackwardSource::kRho;
  Shape shape;
  if (!served || !shape_for<BackwardSource, kBackwardTokens>(call.tokens, call.d, kBackwardThreads, &shape))
    return false;
  *error = cudaSuccess;
  if (*parts == 0) {
    *parts = shape.blocks;
  } else {
    *error = launch<HyperBackwardCuda>(backward_kernel, call, shape, stream);
  }
  return true;
}

}  // namespace siamese::kernels
