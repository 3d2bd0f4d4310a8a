// Registration of `siamese::stream_step`: CPU code, autograd, Meta. Normed values are rebuilt in the backward pass from
// the streams and r, so the operator stores nothing of its own.
#include "ops/stream_step.h"

#include "kernels/stream_step.h"
#include "ops/kernel_types.h"

namespace siamese {
namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using torch::autograd::variable_list;

constexpr int64_t kChunks = 16;  // fixed, so that column sums do not depend on the number of threads
enum Flag : int64_t { kLayer = 1, kNormX = 2, kNormY = 4, kNormIn = 8 };

Tensor value(const OptTensor& t) { return t.value_or(Tensor()); }
OptTensor optional(const Tensor& t) { return t.defined() ? OptTensor(t) : std::nullopt; }

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

Tensor dense(const OptTensor& t) { return t && t->defined() ? t->contiguous() : Tensor(); }

/// All tensors of a call, contiguous, in the order of the schema: the one description forward and backward share.
struct Call {
  Tensor x, y, r, gain_x, bias_x, gain_y, bias_y, gain_in, bias_in, c1;
  double a, eps;
  int64_t flags;

  const Tensor& stream() const { return x.defined() ? x : y; }
  bool on(Flag flag) const { return (flags & flag) != 0; }
  bool both() const { return x.defined() && y.defined(); }

  /// The kernels read raw memory: sizes and types must be what they expect.
  void check(at::ScalarType dtype) const {
    TORCH_CHECK(stream().defined() && stream().dim() >= 1,
                "[stream_step] needs a stream x or y with at least 1 dimension");
    const int64_t d = stream().size(-1);
    if (both()) TORCH_CHECK(x.sizes() == y.sizes(), "[stream_step] x is ", x.sizes(), " but y is ", y.sizes());
    if (both())
      TORCH_CHECK(x.scalar_type() == y.scalar_type(), "[stream_step] x is ", x.scalar_type(), " but y is ",
                  y.scalar_type());
    if (r.defined())
      TORCH_CHECK(r.sizes() == stream().sizes(), "[stream_step] r is ", r.sizes(), " but the stream is ",
                  stream().sizes());
    if (r.defined())
      TORCH_CHECK(r.scalar_type() == dtype, "[stream_step] r is ", r.scalar_type(), " but the values are ", dtype);
    for (const Tensor* t : {&gain_x, &bias_x, &gain_y, &bias_y, &gain_in, &bias_in, &c1}) {
      if (!t->defined()) continue;
      TORCH_CHECK(t->dim() == 1 && t->size(0) == d, "[stream_step] a gain must have shape [", d, "] but has ",
                  t->sizes());
      TORCH_CHECK(t->scalar_type() == dtype, "[stream_step] a gain is ", t->scalar_type(), " but the values are ",
                  dtype);
    }
    TORCH_CHECK(!c1.defined() || !on(kNormX), "[stream_step] c1 and a norm on x exclude each other");
  }

  template <class S, class Z>
  kernels::StreamStep<S, Z> arguments() const {
    kernels::StreamStep<S, Z> p;
    p.d = stream().size(-1);
    p.layer = on(kLayer), p.norm_x = on(kNormX), p.norm_y = on(kNormY), p.norm_in = on(kNormIn);
    p.eps = eps, p.a = a;
    p.x = in_ptr<S>(x), p.y = in_ptr<S>(y), p.r = in_ptr<Z>(r);
    p.gain_x = in_ptr<Z>(gain_x), p.bias_x = in_ptr<Z>(bias_x), p.gain_y = in_ptr<Z>(gain_y),
    p.bias_y = in_ptr<Z>(bias_y);
    p.gain_in = in_ptr<Z>(gain_in), p.bias_in = in_ptr<Z>(bias_in), p.c1 = in_ptr<Z>(c1);
    return p;
  }

  /// `post` reads its own stream: z and X are one tensor.
  bool z_is_x() const { return x.defined() && !y.defined() && on(kNormX) && !on(kNormIn); }
};

#define SIAMESE_STEP_ARGS                                                                                       \
  const OptTensor &x, const OptTensor &y, const OptTensor &r, const OptTensor &gain_x, const OptTensor &bias_x, \
      const OptTensor &gain_y, const OptTensor &bias_y, const OptTensor &gain_in, const OptTensor &bias_in,     \
      const OptTensor &c1, double a, double eps, int64_t flags, at::ScalarType dtype
#define SIAMESE_STEP_NAMES x, y, r, gain_x, bias_x, gain_y, bias_y, gain_in, bias_in, c1, a, eps, flags, dtype

using Outputs = std::tuple<Tensor, Tensor, Tensor>;

Call make_call(SIAMESE_STEP_ARGS) {
  Call call{
      dense(x),       dense(y),  dense(r), dense(gain_x), dense(bias_x), dense(gain_y), dense(bias_y), dense(gain_in),
      dense(bias_in), dense(c1), a,        eps,           flags};
  call.check(dtype);
  return call;
}

/// z, X, y' as they will be written; empty tensors stand for absent streams (a schema cannot return optionals).
Outputs allocate(const Call& call, at::ScalarType dtype) {
  const Tensor& s = call.stream();
  Tensor z = at::empty(s.sizes(), s.options().dtype(dtype)), none = at::empty({0}, s.options());
  const bool new_x = call.x.defined() && (call.r.defined() || call.on(kNormX)) && !call.z_is_x();
  const bool new_y = call.y.defined() && call.r.defined();
  return {z, new_x ? at::empty_like(s) : none, new_y ? at::empty_like(s) : none};
}

Outputs forward_cpu(SIAMESE_STEP_ARGS) {
  const Call call = make_call(SIAMESE_STEP_NAMES);
  auto [z, x_out, y_out] = allocate(call, dtype);
  with_types(call.stream().scalar_type(), dtype, [&](auto s_tag, auto z_tag) {
    using S = decltype(s_tag);
    using Z = decltype(z_tag);
    auto p = call.template arguments<S, Z>();
    p.z = out_ptr<Z>(z);
    if (x_out.numel() > 0) p.x_out = out_ptr<S>(x_out);
    if (y_out.numel() > 0) p.y_out = out_ptr<S>(y_out);
    const int64_t rows = call.stream().numel() / std::max<int64_t>(p.d, 1);
    at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(p.d, 1)), [&](int64_t begin, int64_t end) {
      std::vector<kernels::compute_t<Z>> scratch(static_cast<size_t>(8 * p.d));
      kernels::stream_step_forward<S, Z>(p, begin, end, scratch.data());
    });
  });
  return {z, x_out, y_out};
}

/// Gradients of x, y, r and of the seven vectors; undefined where the input is absent.
std::vector<Tensor> backward_cpu(const Call& call, at::ScalarType dtype, const Tensor& g_z, const Tensor& g_x_out,
                                 const Tensor& g_y_out) {
  const Tensor& s = call.stream();
  const Tensor gz = dense(optional(g_z)), gx_out = dense(optional(g_x_out)), gy_out = dense(optional(g_y_out));
  Tensor g_x = call.x.defined() ? at::empty_like(s) : Tensor(), g_y = call.y.defined() ? at::empty_like(s) : Tensor(),
         g_r;
  // With one stream and a = 1, r's gradient is the stream's: one tensor serves both.
  const bool shared =
      call.r.defined() && !call.both() && (call.y.defined() || call.a == 1.0) && s.scalar_type() == dtype;
  if (call.r.defined() && !shared) g_r = at::empty(s.sizes(), s.options().dtype(dtype));
  std::vector<Tensor> vectors(kernels::kColumns);
  with_types(s.scalar_type(), dtype, [&](auto s_tag, auto z_tag) {
    using S = decltype(s_tag);
    using Z = decltype(z_tag);
    using C = kernels::compute_t<Z>;
    auto p = call.template arguments<S, Z>();
    p.g_z = in_ptr<Z>(gz), p.g_x_out = in_ptr<S>(gx_out), p.g_y_out = in_ptr<S>(gy_out);
    p.g_x = out_ptr<S>(g_x), p.g_y = out_ptr<S>(g_y), p.g_r = out_ptr<Z>(g_r);
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
    const Tensor total = columns.sum(0).to(dtype);
    const Tensor* of[] = {&call.gain_x,  &call.bias_x,  &call.gain_y, &call.bias_y,
                          &call.gain_in, &call.bias_in, &call.c1};
    for (int c = 0; c < kernels::kColumns; ++c)
      if (of[c]->defined()) vectors[static_cast<size_t>(c)] = total[c].clone();
  });
  if (shared) g_r = call.x.defined() ? g_x : g_y;
  std::vector<Tensor> result{g_x, g_y, g_r};
  result.insert(result.end(), vectors.begin(), vectors.end());
  return result;
}

Outputs forward_meta(SIAMESE_STEP_ARGS) { return allocate(make_call(SIAMESE_STEP_NAMES), dtype); }

Outputs call_operator(SIAMESE_STEP_ARGS) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::stream_step", "").typed<decltype(call_operator)>();
  return op.call(SIAMESE_STEP_NAMES);
}

class StreamStepFunction : public torch::autograd::Function<StreamStepFunction> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* ctx, SIAMESE_STEP_ARGS) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({value(x), value(y), value(r), value(gain_x), value(bias_x), value(gain_y), value(bias_y),
                            value(gain_in), value(bias_in), value(c1)});
    ctx->saved_data["a"] = a;
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["flags"] = flags;
    ctx->saved_data["dtype"] = static_cast<int64_t>(dtype);
    ctx->set_materialize_grads(false);
    auto [z, x_out, y_out] = call_operator(SIAMESE_STEP_NAMES);
    variable_list none;
    if (x_out.numel() == 0) none.push_back(x_out);
    if (y_out.numel() == 0) none.push_back(y_out);
    ctx->mark_non_differentiable(none);
    return {z, x_out, y_out};
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list g) {
    const variable_list s = ctx->get_saved_variables();
    const auto dtype = static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt());
    const Call call{dense(s[0]),
                    dense(s[1]),
                    dense(s[2]),
                    dense(s[3]),
                    dense(s[4]),
                    dense(s[5]),
                    dense(s[6]),
                    dense(s[7]),
                    dense(s[8]),
                    dense(s[9]),
                    ctx->saved_data["a"].toDouble(),
                    ctx->saved_data["eps"].toDouble(),
                    ctx->saved_data["flags"].toInt()};
    variable_list result = backward_cpu(call, dtype, g[0], g[1], g[2]);
    result.resize(14);  // the four numbers have no gradient
    return result;
  }
};

Outputs forward_autograd(SIAMESE_STEP_ARGS) {
  const variable_list out = StreamStepFunction::apply(SIAMESE_STEP_NAMES);
  return {out[0], out[1], out[2]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "stream_step(Tensor? x, Tensor? y, Tensor? r, Tensor? gain_x, Tensor? bias_x, Tensor? gain_y, Tensor? bias_y, "
      "Tensor? gain_in, Tensor? bias_in, Tensor? c1, float a, float eps, int flags, ScalarType dtype) -> (Tensor z, "
      "Tensor x_out, Tensor y_out)");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) { m.impl("stream_step", forward_cpu); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) { m.impl("stream_step", forward_meta); }
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("stream_step", forward_autograd); }

bool stream_step_fusable(const StreamStepInput& in) {
  const Tensor& s = in.x.defined() ? in.x : in.y;
  if (!s.device().is_cpu() || (in.r.defined() && in.r.scalar_type() != in.dtype)) return false;
  if (in.y.defined() && in.y.scalar_type() != s.scalar_type()) return false;
  if (in.c1.defined() && (in.norm_x.on || in.c1.scalar_type() != in.dtype)) return false;
  const Norm* first = nullptr;  // one call has one kind of norm and one epsilon
  for (const Norm* n : {&in.norm_x, &in.norm_y, &in.norm_in}) {
    if (!n->on) continue;
    if (first == nullptr) first = n;
    if (n->kind != first->kind || n->eps != first->eps) return false;
    for (const Tensor* t : {&n->gain, &n->bias})
      if (t->defined() && t->scalar_type() != in.dtype) return false;
  }
  const auto type = s.scalar_type();
  return (type == in.dtype && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16)) ||
         (type == at::kFloat && in.dtype == at::kBFloat16);
}

StreamStepOutput stream_step(const StreamStepInput& in) {
  const Norm& any = in.norm_y.on ? in.norm_y : in.norm_x.on ? in.norm_x : in.norm_in;
  const auto bit = [](bool on, Flag flag) { return on ? static_cast<int64_t>(flag) : 0; };
  const int64_t flags = bit(any.kind == NormKind::layer, kLayer) | bit(in.norm_x.on, kNormX) |
                        bit(in.norm_y.on, kNormY) | bit(in.norm_in.on, kNormIn);
  auto [z, x, y] =
      call_operator(optional(in.x), optional(in.y), optional(in.r), optional(in.norm_x.gain), optional(in.norm_x.bias),
                    optional(in.norm_y.gain), optional(in.norm_y.bias), optional(in.norm_in.gain),
                    optional(in.norm_in.bias), optional(in.c1), in.a, any.eps, flags, in.dtype);
  StreamStepOutput out{z, in.x, in.y};
  if (x.numel() > 0)
    out.x = x;
  else if (in.x.defined() && in.norm_x.on)
    out.x = z.to(in.x.scalar_type());  // z is X
  if (y.numel() > 0) out.y = y;
  return out;
}

}  // namespace siamese
