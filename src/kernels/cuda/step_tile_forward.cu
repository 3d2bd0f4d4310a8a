// Forward pass of the stream step by tiles: which configuration serves which call.
//
// Measured on an H200 before LayerNorm's statistics took one pass, percent of a copy of as many bytes (the row-a-warp
// kernels in brackets):
//   pre      RMSNorm  8x1x1  1024: 89 (88)  2048: 92 (86)    LayerNorm  4x3x2  384: 88 (83)   8x3x1  768: 92 (80)
//   siamese  RMSNorm  8x1x1  1024: 90 (86)  2048: 89 (85)    LayerNorm  4x3x2  384: 83 (67)   8x3x1  768: 86 (63)
//   hybrid   RMSNorm  8x1x1  1024: 89 (88)  2048: 89 (87)    LayerNorm  4x3x1  384: 85 (82)   8x3x1  768: 88 (81)
// LayerNorm's rows belong to one warp each, which was fastest with two passes: 384 and 768 alone are served.
#include "kernels/cuda/step_tile.h"
#include "kernels/cuda/step_tile_forward.cuh"
#include "kernels/cuda/step_tile_launch.cuh"

namespace siamese::kernels {
namespace {

using namespace tile;

template <Form form, bool layer, class C, bool sample = false>
bool run(const StepCuda& call, cudaStream_t stream, cudaError_t* error) {
  if constexpr (layer && form != Form::mixed && !sample) {
    if (by_sample(call)) return run<form, layer, C, true>(call, stream, error);
  }
  Shape shape;
  if (!shape_for<C>(Forward<form, layer, sample>::needs(), call, &shape)) return false;
  *error = launch(forward_kernel<form, layer, sample, C>, call, shape, stream);
  return true;
}

}  // namespace

bool step_forward_by_tiles(const StepCuda& call, cudaStream_t stream, cudaError_t* error) {
  Form form;
  if (!form_of(call, &form) || call.rows == 0 || call.x_out != nullptr) return false;
  const bool eights = call.d % 256 == 0;
  switch (form) {
    case Form::pre:
      if (!call.layer) return run<Form::pre, false, Config<8, 1, 1, true, 768, 2>>(call, stream, error);
      return eights ? run<Form::pre, true, Config<8, 3, 1, false, 768, 4, true>>(call, stream, error)
                    : run<Form::pre, true, Config<4, 3, 2, true, 512, 4, true>>(call, stream, error);
    case Form::whole:
      if (!call.layer) return run<Form::whole, false, Config<8, 1, 1, true, 512, 2>>(call, stream, error);
      return eights ? run<Form::whole, true, Config<8, 3, 1, false, 512, 2, true>>(call, stream, error)
                    : run<Form::whole, true, Config<4, 3, 2, false, 512, 2, true>>(call, stream, error);
    case Form::mixed:
      if (!call.layer) return run<Form::mixed, false, Config<8, 1, 1, false, 768, 4>>(call, stream, error);
      return eights ? run<Form::mixed, true, Config<8, 3, 1, false, 512, 2, true>>(call, stream, error)
                    : run<Form::mixed, true, Config<4, 3, 1, false, 640, 4, true>>(call, stream, error);
  }
  return false;
}

}  // namespace siamese::kernels
