#include "ops/experts_cpu.h"

#include "kernels/gather_sum.h"
#include "ops/kernel_types.h"
#include "ops/linear.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows back to their tokens (kernels/gather_sum.h); `weights` may be undefined.
Tensor sum_of_rows(const Tensor& rows, const Tensor& place, const Tensor& weights, int64_t tokens) {
  const int64_t width = rows.size(1), k = tokens == 0 ? 0 : place.numel() / tokens;
  Tensor out = at::empty({tokens, width}, rows.options());
  with_kernel_type(rows.scalar_type(), "experts", [&](auto tag) {
    using T = decltype(tag);
    using C = kernels::compute_t<T>;
    at::parallel_for(0, tokens, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, k * width)),
                     [&](int64_t begin, int64_t end) {
                       std::vector<C> sums(static_cast<size_t>(width));
                       kernels::gather_sum(in_ptr<T>(rows), in_ptr<int64_t>(place), in_ptr<C>(weights), out_ptr<T>(out),
                                           sums.data(), k, width, begin, end);
                     });
  });
  return out;
}

/// Calls f(expert, its first row, its rows) for every expert that has some.
template <class F>
void over_experts(const Tensor& counts, const F& f) {
  int64_t first = 0;
  for (int64_t e = 0; e < counts.size(0); ++e) {
    const int64_t n = counts.const_data_ptr<int64_t>()[e];
    if (n > 0) f(e, first, n);
    first += n;
  }
}

enum Saved { kX, kWeights, kW1, kW2, kToken, kSlot, kPlace, kCounts, kP };

class ExpertsFunction : public torch::autograd::Function<ExpertsFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weights, const Tensor& w1,
                        const Tensor& w2, const Tensor& token, const Tensor& slot, const Tensor& place,
                        const Tensor& counts, int64_t kind) {
    const Tensor xs = x.index_select(0, token);
    Tensor ps = at::empty({xs.size(0), w1.size(1)}, x.options()), ys = at::empty_like(xs);
    over_experts(counts, [&](int64_t e, int64_t first, int64_t n) {
      const Tensor p = project(xs.narrow(0, first, n), w1[e]);
      ps.narrow(0, first, n).copy_(p);
      ys.narrow(0, first, n).copy_(project(activate(p, static_cast<Activation>(kind)), w2[e]));
    });
    ctx->save_for_backward({x, weights, w1, w2, token, slot, place, counts, ps});
    ctx->saved_data["kind"] = kind;
    return sum_of_rows(ys, place, weights, x.size(0));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const auto kind = static_cast<Activation>(ctx->saved_data["kind"].toInt());
    const Tensor &x = s[kX], &w1 = s[kW1], &w2 = s[kW2], &ps = s[kP], g = grads[0].contiguous();
    const auto type = x.scalar_type();
    const Tensor xs = x.index_select(0, s[kToken]), gs = g.index_select(0, s[kToken]),
                 weights = s[kWeights].reshape({-1}).index_select(0, s[kSlot]);
    Tensor gxs = at::empty_like(xs), gweights = at::empty_like(weights), gw1 = at::zeros_like(w1),
           gw2 = at::zeros_like(w2);
    over_experts(s[kCounts], [&](int64_t e, int64_t first, int64_t n) {
      const Tensor up = gs.narrow(0, first, n), p = ps.narrow(0, first, n);
      const Tensor weight = weights.narrow(0, first, n).unsqueeze(1);
      const Tensor u = project(up, w2[e].t()), h = activate(p, kind);
      gweights.narrow(0, first, n).copy_((u.to(weights.scalar_type()) * h).sum(1));
      Tensor gw2_e = gw2[e], gw1_e = gw1[e];
      at::mm_out(gw2_e, up.t(), (h * weight).to(type));
      const Tensor gp = std::get<0>(activation_backward((u * weight).to(type), p, kind, false));
      at::mm_out(gw1_e, gp.t(), xs.narrow(0, first, n));
      gxs.narrow(0, first, n).copy_(project(gp, w1[e].t()));
    });
    const Tensor gx = sum_of_rows(gxs, s[kPlace], {}, x.size(0));
    const Tensor all = at::zeros_like(s[kWeights]).view({-1}).index_copy(0, s[kSlot], gweights);
    return {gx, all.view(s[kWeights].sizes()), gw1, gw2, {}, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor experts_cpu(const Tensor& x, const ExpertRows& rows, const Tensor& weights, const Tensor& w1, const Tensor& w2,
                   Activation kind) {
  return ExpertsFunction::apply(x.contiguous(), weights.contiguous(), w1, w2, rows.token, rows.slot, rows.place,
                                rows.counts, static_cast<int64_t>(kind));
}

}  // namespace siamese
