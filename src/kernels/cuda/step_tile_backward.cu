// Backward pass of the stream step by tiles: which configuration serves which call.
//
// Measured on an H200, percent of a copy of as many bytes, without and with z (the row-a-warp kernels in brackets):
//   pre      RMSNorm    8x1x1    1024: 98, 90 (81, 85)   2048: 91, 93 (83, 85)
//   pre      LayerNorm  4x1x2     384: 93, 92 (58, 66)   8x1x1   768: 97, 92 (49, 57)
//   siamese  RMSNorm    4x1x2    1024: 95, 89 (78, 79)   8x1x1  2048: 89, 86 (75, 77)
//   siamese  LayerNorm  4x1x2     384: 91, 90 (40, 44)   8x1x1   768: 96, 91 (35, 39)
//   hybrid   RMSNorm    8x1x1    1024: 92, 92 (88, 88)   2048: 92, 91 (87, 87)
//   hybrid   LayerNorm  4x1x4     384: 92, 91 (79, 82)    768: 93, 92 (71, 75)
#include "kernels/cuda/step_tile.h"
#include "kernels/cuda/step_tile_backward.cuh"
#include "kernels/cuda/step_tile_launch.cuh"

namespace siamese::kernels {
namespace {

using namespace tile;

/// `S` is the configuration with adaLN.
template <Form form, bool layer, class C, class S = C, bool sample = false>
bool run(const StepCuda& call, StepParts* parts, cudaStream_t stream, cudaError_t* error) {
  if constexpr (layer && form != Form::mixed && !sample) {
    if (by_sample(call)) return run<form, layer, S, S, true>(call, parts, stream, error);
  }
  Shape shape;
  if (!shape_for<C>(Backward<form, layer, sample>::needs(), call, &shape)) return false;
  *error = cudaSuccess;
  if (parts->parts == 0) {
    *parts = {shape.blocks, layer ? 6 : 3, sample ? static_cast<int>(call.samples) * shape.plan.parts : 0};
  } else {
    *error = launch(backward_kernel<form, layer, sample, C>, call, shape, stream);
  }
  return true;
}

}  // namespace

bool step_backward_by_tiles(const StepCuda& call, StepParts* parts, cudaStream_t stream, cudaError_t* error) {
  Form form;
  const bool two = call.x != nullptr;
  if (!form_of(call, &form) || call.rows == 0 || call.g_z == nullptr || call.g_y == nullptr ||
      (two && call.g_x == nullptr))
    return false;
  // The sums of γ and β of the norm under scale and shift would be other ones than theirs.
  if (by_sample(call) && (form == Form::whole ? call.affine_in : call.affine_y)) return false;
  const bool eights = call.d % 256 == 0;
  switch (form) {
    case Form::pre:
      if (!call.layer) return run<Form::pre, false, Config<8, 1, 1, true, 640, 2>>(call, parts, stream, error);
      return eights ? run<Form::pre, true, Config<8, 1, 1, true, 640, 2>, Config<8, 1, 1, false, 640, 2>>(call, parts,
                                                                                                          stream, error)
                    : run<Form::pre, true, Config<4, 1, 2, true, 640, 2>>(call, parts, stream, error);
    case Form::whole:
      if (!call.layer && call.d > 1024)
        return run<Form::whole, false, Config<8, 1, 1, false, 512, 2>>(call, parts, stream, error);
      if (!call.layer) return run<Form::whole, false, Config<4, 1, 2, true, 512, 2>>(call, parts, stream, error);
      return eights ? run<Form::whole, true, Config<8, 1, 1, false, 384, 2>>(call, parts, stream, error)
                    : run<Form::whole, true, Config<4, 1, 2, true, 384, 2>>(call, parts, stream, error);
    case Form::mixed:
      if (!call.layer) return run<Form::mixed, false, Config<8, 1, 1, true, 512, 4>>(call, parts, stream, error);
      return call.d < 1024 ? run<Form::mixed, true, Config<4, 1, 4, false, 384, 3>>(call, parts, stream, error)
                           : run<Form::mixed, true, Config<8, 1, 1, true, 512, 2>>(call, parts, stream, error);
  }
  return false;
}

}  // namespace siamese::kernels
