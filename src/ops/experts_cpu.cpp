#include "ops/experts_cpu.h"

#include "kernels/gather_sum.h"
#include "kernels/swiglu_rows.h"
#include "ops/kernel_types.h"

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

/// Calls f(expert, its first row, its rows) for every expert, busy or not.
template <class F>
void over_experts(const Tensor& counts, const F& f) {
  int64_t first = 0;
  for (int64_t e = 0; e < counts.size(0); ++e) {
    const int64_t n = counts.const_data_ptr<int64_t>()[e];
    f(e, first, n);
    first += n;
  }
}

struct RowGradients {
  Tensor p, weighted, weight;  // of the activation's input, weight·h, of the weight
};

/// From u, the gradient of weight·h before the weight.
RowGradients row_gradients(const Tensor& p, const Tensor& u, const Tensor& weight, Activation kind) {
  const auto type = p.scalar_type();
  if (kind != Activation::swiglu) {
    const Tensor h = activate(p, kind), w = weight.unsqueeze(1);
    return {std::get<0>(activation_backward((u * w).to(type), p, kind, false)), (h * w).to(type),
            (u.to(weight.scalar_type()) * h).sum(1)};
  }
  RowGradients g{at::empty_like(p), at::empty_like(u), at::empty_like(weight)};
  const int64_t rows = u.size(0), width = u.size(1);
  with_kernel_type(type, "experts", [&](auto tag) {
    using T = decltype(tag);
    using C = kernels::compute_t<T>;
    at::parallel_for(0, rows, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, width)),
                     [&](int64_t begin, int64_t end) {
                       kernels::swiglu_rows_backward(in_ptr<T>(p), in_ptr<T>(u), in_ptr<C>(weight), out_ptr<T>(g.p),
                                                     out_ptr<T>(g.weighted), out_ptr<C>(g.weight), width, begin, end);
                     });
  });
  return g;
}

enum Saved { kX, kWeights, kW1, kW2, kToken, kSlot, kPlace, kCounts, kP };

/// a·b into rows first … first+n-1 of `out`. By BLAS: the number of rows is another one every time, and oneDNN, a tenth
/// faster otherwise, would compile a kernel for each of them.
void product_into(const Tensor& out, int64_t first, int64_t n, const Tensor& a, const Tensor& b) {
  Tensor rows = out.narrow(0, first, n);
  at::mm_out(rows, a, b);
}

class ExpertsFunction : public torch::autograd::Function<ExpertsFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weights, const Tensor& w1,
                        const Tensor& w2, const Tensor& token, const Tensor& slot, const Tensor& place,
                        const Tensor& counts, int64_t kind) {
    const Tensor xs = x.index_select(0, token);
    const Tensor ps = at::empty({xs.size(0), w1.size(1)}, x.options()), ys = at::empty_like(xs);
    over_experts(counts, [&](int64_t e, int64_t first, int64_t n) {
      if (n == 0) return;
      product_into(ps, first, n, xs.narrow(0, first, n), w1[e].t());
      product_into(ys, first, n, activate(ps.narrow(0, first, n), static_cast<Activation>(kind)), w2[e].t());
    });
    ctx->save_for_backward({x, weights, w1, w2, token, slot, place, counts, ps});
    ctx->saved_data["kind"] = kind;
    return sum_of_rows(ys, place, weights, x.size(0));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const auto kind = static_cast<Activation>(ctx->saved_data["kind"].toInt());
    const Tensor &x = s[kX], &w1 = s[kW1], &w2 = s[kW2], g = grads[0].contiguous();
    const Tensor xs = x.index_select(0, s[kToken]), gs = g.index_select(0, s[kToken]),
                 weights = s[kWeights].reshape({-1}).index_select(0, s[kSlot]);
    const Tensor gxs = at::empty_like(xs), gweights = at::empty_like(weights), gw1 = at::empty_like(w1),
                 gw2 = at::empty_like(w2);
    over_experts(s[kCounts], [&](int64_t e, int64_t first, int64_t n) {
      Tensor gw1_e = gw1[e], gw2_e = gw2[e];
      if (n == 0) {
        gw1_e.zero_(), gw2_e.zero_();
        return;
      }
      const Tensor up = gs.narrow(0, first, n);
      const RowGradients row =
          row_gradients(s[kP].narrow(0, first, n), at::mm(up, w2[e]), weights.narrow(0, first, n), kind);
      gweights.narrow(0, first, n).copy_(row.weight);
      at::mm_out(gw2_e, up.t(), row.weighted);
      at::mm_out(gw1_e, row.p.t(), xs.narrow(0, first, n));
      product_into(gxs, first, n, row.p, w1[e]);
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
