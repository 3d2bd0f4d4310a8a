// Forward pass of the stream step by tiles: which configuration serves which call.
//
// Measured on an H200 before LayerNorm's statistics took one pass, percent of a copy of as many bytes (the row-a-warp
// kernels in brackets):
//   pre      RMSNorm  8x1x1  1024: 89 (88)  2048: 92 (86)    LayerNorm  4x3x2  384: 88 (83)   8x3x1  768: 92 (80)
//   siamese  RMSNorm  8x1x1  1024: 90 (86)  2048: 89 (85)    LayerNorm  4x3x2  384: 83 (67)   8x3x1  768: 86 (63)
//   hybrid   RMSNorm  8x1x1  1024: 89 (88)  2048: 89 (87)    LayerNorm  4x3x1  384: 85 (82)   8x3x1  768: 88 (81)
// LayerNorm's rows belong to one warp each at the widths of image models, which was fastest with two passes.
// The first configuration that fits a call's width serves it.
#include "kernels/cuda/step_tile.h"
#include "kernels/cuda/step_tile_forward.cuh"
#include "kernels/cuda/step_tile_launch.cuh"
#include "kernels/cuda/step_tile_post.cuh"
#include "kernels/cuda/step_tile_sandwich.cuh"

namespace siamese::kernels {
namespace {

using namespace tile;

struct Launch {
  const StepCuda& call;
  cudaStream_t stream;
  cudaError_t* error;

  template <class C>
  bool run(const Needs& needs, void (*kernel)(StepCuda, Plan)) const {
    Shape shape;
    if (!shape_for<C>(needs, call, &shape)) return false;
    *error = launch(kernel, call, shape, stream);
    return true;
  }
  template <Form form, bool layer, class C>
  bool one() const {
    if constexpr (form == Form::post || form == Form::dual) {
      constexpr bool dual = form == Form::dual;
      return run<C>(PostForward<dual, layer>::needs(), post_forward_kernel<dual, layer, C>);
    } else if constexpr (form == Form::sandwich) {
      return run<C>(SandwichForward<layer>::needs(), sandwich_forward_kernel<layer, C>);
    } else {
      if constexpr (layer && form != Form::mixed)
        if (by_sample(call)) return run<C>(Forward<form, layer, true>::needs(), forward_kernel<form, layer, true, C>);
      return run<C>(Forward<form, layer, false>::needs(), forward_kernel<form, layer, false, C>);
    }
  }
  template <Form form>
  bool any_norm() const {
    if (!call.layer)
      return one<form, false, Config<8, 1, 1, true, 768, 2>>() || one<form, false, Config<4, 1, 2, true, 768, 2>>();
    return one<form, true, Config<8, 3, 1, false, 512, 4, true>>() ||
           one<form, true, Config<4, 3, 2, false, 512, 4, true>>() || one<form, true, Config<8, 1, 1, false, 512, 2>>();
  }
};

}  // namespace

bool step_forward_by_tiles(const StepCuda& call, cudaStream_t stream, cudaError_t* error) {
  Form form;
  if (!form_of(call, &form) || call.rows == 0 || call.x_out != nullptr) return false;
  const Launch with{call, stream, error};
  switch (form) {
    case Form::pre:
      if (!call.layer)
        return with.one<Form::pre, false, Config<8, 1, 1, true, 768, 2>>() ||
               with.one<Form::pre, false, Config<4, 1, 2, true, 768, 2>>();
      return with.one<Form::pre, true, Config<8, 3, 1, false, 768, 4, true>>() ||
             with.one<Form::pre, true, Config<4, 3, 2, true, 512, 4, true>>();
    case Form::whole:
      if (!call.layer)
        return with.one<Form::whole, false, Config<8, 1, 1, true, 512, 2>>() ||
               with.one<Form::whole, false, Config<4, 1, 2, true, 512, 2>>();
      return with.one<Form::whole, true, Config<8, 3, 1, false, 512, 2, true>>() ||
             with.one<Form::whole, true, Config<4, 3, 2, false, 512, 2, true>>() ||
             with.one<Form::whole, true, Config<8, 1, 1, false, 512, 2>>();
    case Form::mixed:
      if (!call.layer)
        return with.one<Form::mixed, false, Config<8, 1, 1, false, 768, 4>>() ||
               with.one<Form::mixed, false, Config<4, 1, 2, false, 768, 2>>();
      return with.one<Form::mixed, true, Config<8, 3, 1, false, 512, 2, true>>() ||
             with.one<Form::mixed, true, Config<4, 3, 1, false, 640, 4, true>>() ||
             with.one<Form::mixed, true, Config<8, 1, 1, false, 512, 2>>();
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
