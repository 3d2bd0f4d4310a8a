#include "ops/router_product.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// a·b of bf16 matrices, summed up and returned in fp32.
Tensor product(const Tensor& a, const Tensor& b) {
  return a.is_cuda() ? at::mm(a, b, at::kFloat) : at::mm(a.to(at::kFloat), b.to(at::kFloat));
}

class RouterProduct : public torch::autograd::Function<RouterProduct> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, w});
    const int64_t experts = w.size(0);
    return product(x, bf16_parts(w).view({3 * experts, -1}).t()).view({-1, 3, experts}).sum(1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1];
    const int64_t experts = w.size(0), tokens = x.size(0);
    const Tensor g = bf16_parts(grads[0]), parts = bf16_parts(w);  // [3, T, E], [3, E, d]
    const Tensor gw = product(g.permute({0, 2, 1}).reshape({3 * experts, tokens}), x).view({3, experts, -1}).sum(0);
    // Σ g_i W_j over i + j <= 1, summed up in fp32: the rest is far below bf16's last bit.
    return {at::mm(at::cat({g[0], g[0], g[1]}, 1), at::cat({parts[0], parts[1], parts[0]})), gw};
  }
};

}  // namespace

Tensor bf16_parts(const Tensor& t) {
  const Tensor a = t.to(at::kBFloat16), rest = t - a.to(at::kFloat), b = rest.to(at::kBFloat16);
  return at::stack({a, b, (rest - b.to(at::kFloat)).to(at::kBFloat16)});
}

Tensor router_product(const Tensor& x, const Tensor& w) {
  TORCH_CHECK(x.dim() == 2 && w.dim() == 2 && x.size(1) == w.size(1) && x.scalar_type() == at::kBFloat16 &&
                  w.scalar_type() == at::kFloat,
              "[router_product] x ", x.sizes(), " of type ", x.scalar_type(), " and w ", w.sizes(), " of type ",
              w.scalar_type(), " do not fit");
  return RouterProduct::apply(x, w);
}

}  // namespace siamese
