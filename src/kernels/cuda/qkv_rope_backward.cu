// Backward pass before attention by rows: which configuration serves which call.
#include "kernels/cuda/qkv_rope_backward.cuh"
#include "kernels/cuda/qkv_rope_launch.cuh"
#include "kernels/cuda/qkv_rope_rows.h"

namespace siamese::kernels {
namespace {

using namespace rows;

template <class C>
bool run(const QkvRope& call, StepParts* parts, cudaStream_t stream, cudaError_t* error) {
  Shape shape;
  if (!shape_for<C>(backward_kernel<C>, call, 2, &shape)) return false;
  *error = cudaSuccess;
  if (parts->parts == 0) {
    *parts = {shape.blocks, 6};
  } else {
    shape.blocks = parts->parts;
    *error = launch<C>(backward_kernel<C>, call, shape, 0, stream);
  }
  return true;
}

}  // namespace

bool qkv_rope_backward_by_rows(const QkvRope& call, StepParts* parts, cudaStream_t stream, cudaError_t* error) {
  if (!fits(call)) return false;
  if (call.dim == 64)
    return call.layer ? run<Config<64, true, false, 256, 2, 3>>(call, parts, stream, error)
                      : run<Config<64, false, false, 256, 2, 3>>(call, parts, stream, error);
  return call.layer ? run<Config<128, true, false, 256, 2, 3>>(call, parts, stream, error)
                    : run<Config<128, false, false, 256, 2, 3>>(call, parts, stream, error);
}

}  // namespace siamese::kernels
