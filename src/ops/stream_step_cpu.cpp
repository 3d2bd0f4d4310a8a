// The CPU side of `siamese::stream_step`: the kernels of kernels/stream_step.h, rows shared out among the threads.
#include "kernels/stream_step.h"

#include "ops/kernel_types.h"
#include "ops/step_call.h"
#include "ops/stream_step_cpu_plain.h"

namespace siamese {
namespace {

using at::Tensor;

constexpr int64_t kChunks = 16;  // fixed, so that column sums do not depend on the number of threads

/// Calls f<S, Z>() for the stream and value types that have kernels.
template <class F>
void with_types(at::ScalarType s, at::ScalarType z, const F& f) {
  using kernels::bf16;
  if (s == at::kFloat && z == at::kFloat) return f(float{}, float{});
  if (s == at::kDouble && z == at::kDouble) return f(double{}, double{});
  if (s == at::kBFloat16 && z == at::kBFloat16) return f(bf16{}, bf16{});
  if (s == at::kFloat && z == at::kBFloat16) return f(float{}, bf16{});
  TORCH_CHECK(false, "[stream_step] no kernel for streams of type ", s, " and values of type ", z);
}

StepCall dense(StepCall call) {
  TORCH_CHECK(!call.between_steps(),
              "[stream_step] the CPU leaves no norm pending, keeps nothing for the backward pass "
              "and joins no gradients");
  for (Tensor& t : call.t)
    if (t.defined()) t = t.contiguous();
  return call;
}

template <class S, class Z>
kernels::StreamStep<S, Z> arguments(const StepCall& c) {
  kernels::StreamStep<S, Z> p;
  p.d = c.stream().size(-1);
  p.layer = c.on(kLayer), p.norm_x = c.on(kNormX), p.norm_y = c.on(kNormY), p.norm_in = c.on(kNormIn);
  p.eps = c.eps, p.a = c.a;
  p.x = in_ptr<S>(c[kX]), p.y = in_ptr<S>(c[kY]), p.r = in_ptr<Z>(c[kR]);
  p.gain_x = in_ptr<Z>(c[kGainX]), p.bias_x = in_ptr<Z>(c[kBiasX]), p.gain_y = in_ptr<Z>(c[kGainY]);
  p.bias_y = in_ptr<Z>(c[kBiasY]), p.gain_in = in_ptr<Z>(c[kGainIn]), p.bias_in = in_ptr<Z>(c[kBiasIn]);
  p.c1 = in_ptr<Z>(c[kC1]);
  return p;
}

StepResults forward_cpu(const StepCall& raw) {
  const StepCall call = dense(raw);
  if (call.extended()) return stream_step_forward_plain(call);
  StepResults out = allocate_step(call);
  with_types(call.stream().scalar_type(), call.dtype, [&](auto s_tag, auto z_tag) {
    using S = decltype(s_tag);
    using Z = decltype(z_tag);
    auto p = arguments<S, Z>(call);
    p.z = out_ptr<Z>(out[kZ]), p.x_out = out_ptr<S>(out[kXOut]), p.y_out = out_ptr<S>(out[kYOut]);
    const int64_t rows = call.stream().numel() / std::max<int64_t>(p.d, 1);
    at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(p.d, 1)), [&](int64_t begin, int64_t end) {
      std::vector<kernels::compute_t<Z>> scratch(static_cast<size_t>(8 * p.d));
      kernels::stream_step_forward<S, Z>(p, begin, end, scratch.data());
    });
  });
  return out;
}

StepBackward backward_cpu(const StepCall& raw, const StepGradients& g) {
  const StepCall call = dense(raw);
  if (call.extended()) return stream_step_backward_plain(call, g);
  const Tensor& s = call.stream();
  auto contiguous = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
  const Tensor gz = contiguous(g.z), gx_out = contiguous(g.x_out), gy_out = contiguous(g.y_out);
  StepBackward out;
  if (call.has(kX)) out[kX] = at::empty_like(s);
  if (call.has(kY)) out[kY] = at::empty_like(s);
  if (call.has(kR) && !call.r_has_stream_gradient()) out[kR] = at::empty_like(s, s.options().dtype(call.dtype));
  with_types(s.scalar_type(), call.dtype, [&](auto s_tag, auto z_tag) {
    using S = decltype(s_tag);
    using Z = decltype(z_tag);
    using C = kernels::compute_t<Z>;
    auto p = arguments<S, Z>(call);
    p.g_z = in_ptr<Z>(gz), p.g_x_out = in_ptr<S>(gx_out), p.g_y_out = in_ptr<S>(gy_out);
    p.g_x = out_ptr<S>(out[kX]), p.g_y = out_ptr<S>(out[kY]), p.g_r = out_ptr<Z>(out[kR]);
    const int64_t rows = s.numel() / std::max<int64_t>(p.d, 1), chunk = (rows + kChunks - 1) / kChunks;
    const auto type = std::is_same_v<C, double> ? at::kDouble : at::kFloat;
    Tensor columns = at::zeros({kChunks, kernels::kColumns, p.d}, s.options().dtype(type));
    C* sums = static_cast<C*>(columns.mutable_data_ptr());
    const int64_t grain = s.numel() < 16384 ? kChunks : 1;  // waking a thread costs more than so few elements
    at::parallel_for(0, kChunks, grain, [&](int64_t begin, int64_t end) {
      std::vector<C> scratch(static_cast<size_t>(8 * p.d));
      for (int64_t c = begin; c < end; ++c)
        kernels::stream_step_backward<S, Z>(p, std::min(c * chunk, rows), std::min((c + 1) * chunk, rows),
                                            scratch.data(), sums + c * kernels::kColumns * p.d);
    });
    const Tensor total = columns.sum(0).to(call.dtype);
    // The kernels' columns stand in the order of the schema.
    for (int c = 0; c < kernels::kColumns; ++c)
      if (call.t[static_cast<size_t>(kGainX + c)].defined()) out[static_cast<size_t>(kGainX + c)] = total[c].clone();
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("stream_step", torch::CppFunction::makeFromBoxedFunction<&boxed_step<forward_cpu>>());
  m.impl("stream_step_backward", torch::CppFunction::makeFromBoxedFunction<&boxed_step_backward<backward_cpu>>());
}

}  // namespace siamese
