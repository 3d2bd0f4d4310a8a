// Forward pass before attention by rows: which configuration serves which call.
#include "kernels/cuda/qkv_rope_forward.cuh"
#include "kernels/cuda/qkv_rope_launch.cuh"
#include "kernels/cuda/qkv_rope_rows.h"

namespace siamese::kernels {
namespace {

using namespace rows;

template <class C>
bool run(const QkvRope& call, cudaStream_t stream, cudaError_t* error) {
  Shape shape;
  if (!shape_for<C>(forward_kernel<C>, call, 1, &shape)) return false;
  *error = launch<C>(forward_kernel<C>, call, shape, 0, stream);
  return true;
}

}  // namespace

bool qkv_rope_forward_by_rows(const QkvRope& call, cudaStream_t stream, cudaError_t* error) {
  if (!fits(call)) return false;
  if (call.dim == 64)
    return call.layer ? run<Config<64, true, false, 256, 3, 4>>(call, stream, error)
                      : run<Config<64, false, true, 256, 3, 4>>(call, stream, error);
  return call.layer ? run<Config<128, true, false, 256, 3, 4>>(call, stream, error)
                    : run<Config<128, false, true, 256, 3, 4>>(call, stream, error);
}

}  // namespace siamese::kernels
