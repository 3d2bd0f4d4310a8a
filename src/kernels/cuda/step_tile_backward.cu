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
#include "kernels/cuda/step_tile_post.cuh"
#include "kernels/cuda/step_tile_sandwich.cuh"

namespace siamese::kernels {
namespace {

using namespace tile;

/// Counts the parts, or runs.
struct Launch {
  const StepCuda& call;
  StepParts* parts;
  cudaStream_t stream;
  cudaError_t* error;

  template <class C>
  bool run(const Needs& needs, void (*kernel)(StepCuda, Plan)) const {
    Shape shape;
    if (!shape_for<C>(needs, call, &shape)) return false;
    *error = cudaSuccess;
    if (parts->parts == 0) {
      *parts = {shape.blocks, call.layer ? 6 : 3,
                by_sample(call) ? static_cast<int>(call.samples) * shape.plan.parts : 0};
    } else {
      *error = launch(kernel, call, shape, stream);
    }
    return true;
  }
  /// `S` is the configuration with adaLN.
  template <Form form, bool layer, class C, class S = C>
  bool one() const {
    if constexpr (form == Form::post || form == Form::dual) {
      constexpr bool dual = form == Form::dual;
      return run<C>(PostBackward<dual, layer>::needs(), post_backward_kernel<dual, layer, C>);
    } else if constexpr (form == Form::sandwich) {
      return run<C>(SandwichBackward<layer>::needs(), sandwich_backward_kernel<layer, C>);
    } else {
      if constexpr (layer && form != Form::mixed)
        if (by_sample(call)) return run<S>(Backward<form, layer, true>::needs(), backward_kernel<form, layer, true, S>);
      return run<C>(Backward<form, layer, false>::needs(), backward_kernel<form, layer, false, C>);
    }
  }
  template <Form form>
  bool any_norm() const {
    if (!call.layer)
      return one<form, false, Config<8, 1, 1, true, 512, 2>>() || one<form, false, Config<4, 1, 2, true, 512, 2>>();
    return one<form, true, Config<8, 1, 1, true, 512, 2>>() || one<form, true, Config<4, 1, 2, true, 512, 2>>();
  }
};

}  // namespace

bool step_backward_by_tiles(const StepCuda& call, StepParts* parts, cudaStream_t stream, cudaError_t* error) {
  Form form;
  if (!form_of(call, &form) || call.rows == 0 || call.g_z == nullptr || (call.y != nullptr && call.g_y == nullptr) ||
      (call.x != nullptr && call.g_x == nullptr))
    return false;
  // The sums of γ and β of the norm under scale and shift would be other ones than theirs.
  if (by_sample(call) && (form == Form::whole ? call.affine_in : call.affine_y)) return false;
  const bool eights = call.d % 256 == 0;
  const Launch with{call, parts, stream, error};
  switch (form) {
    case Form::pre:
      if (!call.layer)
        return with.one<Form::pre, false, Config<8, 1, 1, true, 640, 2>>() ||
               with.one<Form::pre, false, Config<4, 1, 2, true, 640, 2>>();
      return eights ? with.one<Form::pre, true, Config<8, 1, 1, true, 640, 2>, Config<8, 1, 1, false, 640, 2>>()
                    : with.one<Form::pre, true, Config<4, 1, 2, true, 640, 2>>();
    case Form::whole:
      if (!call.layer && call.d > 1024) return with.one<Form::whole, false, Config<8, 1, 1, false, 512, 2>>();
      if (!call.layer) return with.one<Form::whole, false, Config<4, 1, 2, true, 512, 2>>();
      return eights ? with.one<Form::whole, true, Config<8, 1, 1, false, 384, 2>>()
                    : with.one<Form::whole, true, Config<4, 1, 2, true, 384, 2>>();
    case Form::mixed:
      if (!call.layer)
        return with.one<Form::mixed, false, Config<8, 1, 1, true, 512, 4>>() ||
               with.one<Form::mixed, false, Config<4, 1, 2, true, 512, 2>>();
      return call.d < 1024 ? with.one<Form::mixed, true, Config<4, 1, 4, false, 384, 3>>()
                           : with.one<Form::mixed, true, Config<8, 1, 1, true, 512, 2>>();
    case Form::post:
      return with.any_norm<Form::post>();
    case Form::dual:
      return with.any_norm<Form::dual>();
    case Form::sandwich:
      return with.any_norm<Form::sandwich>();
  }
  return false;
}

}  // namespace siamese::kernels
