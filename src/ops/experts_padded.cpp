#include "ops/experts_padded.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum Saved { kX, kWeights, kW1, kW2, kToken, kSlot, kPlace, kEnds, kP };

class PaddedFunction : public torch::autograd::Function<PaddedFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weights, const Tensor& w1,
                        const Tensor& w2, const Tensor& token, const Tensor& slot, const Tensor& place,
                        const Tensor& ends) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor p = product_by_groups(spread_rows(x, place, token), w1.transpose(1, 2), ends);
    const Tensor ys = product_by_groups(weighted_swiglu(p, weights, slot), w2.transpose(1, 2), ends);
    ctx->save_for_backward({x, weights, w1, w2, token, slot, place, ends, p});
    return gather_sum(ys, place, weights.size(1));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Tensor& ends = s[kEnds];
    Tensor gx, gw1, gw2, gp, h, gweights;
    {
      const Tensor gs = spread_rows(grads[0].contiguous(), s[kPlace], s[kToken]);
      std::tie(gp, h, gweights) =
          weighted_swiglu_backward(s[kP], product_by_groups(gs, s[kW2], ends), s[kWeights], s[kSlot]);
      gw2 = transposed_product_of_groups(gs, h, ends);
    }
    gw1 = transposed_product_of_groups(gp, spread_rows(s[kX], s[kPlace], s[kToken]), ends);
    gx = gather_sum(product_by_groups(gp, s[kW1], ends), s[kPlace], s[kWeights].size(1));
    return {gx, gweights, gw1, gw2, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor experts_padded(const Tensor& x, const PaddedRows& rows, const Tensor& weights, const Tensor& w1,
                      const Tensor& w2) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2 && weights.size(0) == x.size(0) &&
                  weights.numel() == rows.place.numel() && w1.dim() == 3 && w2.dim() == 3 &&
                  w1.size(0) == rows.ends.size(0) && w2.size(0) == w1.size(0) && w1.size(2) == x.size(1) &&
                  w2.size(1) == x.size(1) && w1.size(1) == 2 * w2.size(2),
              "[experts] x ", x.sizes(), ", weights ", weights.sizes(), ", w1 ", w1.sizes(), " and w2 ", w2.sizes(),
              " do not fit");
  return PaddedFunction::apply(x.contiguous(), weights.contiguous(), w1, w2, rows.token, rows.slot, rows.place,
                               rows.ends);
}

}  // namespace siamese
