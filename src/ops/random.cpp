#include "ops/random.h"

#include "kernels/random.h"

namespace siamese {
namespace {

/// Calls f(element, word) for the elements of [0, n), philox called once per four of them.
template <class F>
void for_each_word(int64_t n, const Draw& draw, const F& f) {
  const RandomKey key(static_cast<uint64_t>(draw.seed), static_cast<uint64_t>(draw.step), draw.site);
  at::parallel_for(0, n, 8192, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const uint64_t element = static_cast<uint64_t>(draw.offset + i);
      const Philox4 words = key.words(element >> 2);
      for (uint64_t lane = element & 3; lane < 4 && i < end; ++lane, ++i) f(i, words.v[lane]);
    }
  });
}

Draw draw_of(int64_t seed, int64_t step, int64_t site, int64_t offset) {
  return {seed, step, static_cast<uint32_t>(site), offset};
}

at::Tensor& truncated_normal_cpu(at::Tensor& out, double std, double cutoff, int64_t seed, int64_t step, int64_t site,
                                 int64_t offset) {
  TORCH_CHECK(out.is_contiguous(), "[truncated_normal_] the tensor must be contiguous");
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, out.scalar_type(), "truncated_normal_", [&] {
    scalar_t* data = out.mutable_data_ptr<scalar_t>();
    for_each_word(out.numel(), draw_of(seed, step, site, offset), [&](int64_t i, uint32_t word) {
      data[i] = static_cast<scalar_t>(static_cast<float>(kernels::truncated_normal(word, std, cutoff)));
    });
  });
  return out;
}

at::Tensor& uniform_cpu(at::Tensor& out, int64_t seed, int64_t step, int64_t site, int64_t offset) {
  TORCH_CHECK(out.is_contiguous() && out.scalar_type() == at::kFloat, "[uniform_] needs a contiguous fp32 tensor");
  float* data = out.mutable_data_ptr<float>();
  for_each_word(out.numel(), draw_of(seed, step, site, offset),
                [&](int64_t i, uint32_t word) { data[i] = uniform24(word); });
  return out;
}

at::Tensor dropout_cpu(const at::Tensor& x, double p, int64_t seed, int64_t step, int64_t site, int64_t offset) {
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, in.scalar_type(), "dropout", [&] {
    const scalar_t* from = in.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    for_each_word(in.numel(), draw_of(seed, step, site, offset), [&](int64_t i, uint32_t word) {
      to[i] = static_cast<scalar_t>(from[i] * kernels::dropout_factor(word, static_cast<float>(p)));
    });
  });
  return out;
}

at::Tensor call_dropout(const at::Tensor& x, double p, int64_t seed, int64_t step, int64_t site, int64_t offset) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::dropout", "").typed<decltype(call_dropout)>();
  return op.call(x, p, seed, step, site, offset);
}

/// y = m⊙x, gx = m⊙gy: the same operator both ways.
class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, double p, int64_t seed,
                            int64_t step, int64_t site, int64_t offset) {
    at::AutoDispatchBelowADInplaceOrView guard;
    for (const auto& [name, value] : {std::pair{"seed", seed}, {"step", step}, {"site", site}, {"offset", offset}})
      ctx->saved_data[name] = value;
    ctx->saved_data["p"] = p;
    return call_dropout(x, p, seed, step, site, offset);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    auto whole = [&](const char* name) { return ctx->saved_data[name].toInt(); };
    return {call_dropout(g[0], ctx->saved_data["p"].toDouble(), whole("seed"), whole("step"), whole("site"),
                         whole("offset")),
            {},
            {},
            {},
            {},
            {}};
  }
};

at::Tensor dropout_autograd(const at::Tensor& x, double p, int64_t seed, int64_t step, int64_t site, int64_t offset) {
  return DropoutFunction::apply(x, p, seed, step, site, offset);
}

at::Tensor& truncated_normal_meta(at::Tensor& out, double, double, int64_t, int64_t, int64_t, int64_t) { return out; }
at::Tensor& uniform_meta(at::Tensor& out, int64_t, int64_t, int64_t, int64_t) { return out; }
at::Tensor dropout_meta(const at::Tensor& x, double, int64_t, int64_t, int64_t, int64_t) {
  return at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "truncated_normal_(Tensor(a!) out, float std, float cutoff, int seed, int step, int site, int offset=0) -> "
      "Tensor(a!)");
  m.def("uniform_(Tensor(a!) out, int seed, int step, int site, int offset=0) -> Tensor(a!)");
  m.def("dropout(Tensor x, float p, int seed, int step, int site, int offset=0) -> Tensor");
}
TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("truncated_normal_", truncated_normal_cpu);
  m.impl("uniform_", uniform_cpu);
  m.impl("dropout", dropout_cpu);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("dropout", dropout_autograd); }
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("truncated_normal_", truncated_normal_meta);
  m.impl("uniform_", uniform_meta);
  m.impl("dropout", dropout_meta);
}

void truncated_normal_(at::Tensor out, double std, double cutoff, const Draw& draw) {
  using Signature = at::Tensor&(at::Tensor&, double, double, int64_t, int64_t, int64_t, int64_t);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::truncated_normal_", "").typed<Signature>();
  op.call(out, std, cutoff, draw.seed, draw.step, draw.site, draw.offset);
}

at::Tensor uniform(at::IntArrayRef shape, at::Device device, const Draw& draw) {
  using Signature = at::Tensor&(at::Tensor&, int64_t, int64_t, int64_t, int64_t);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::uniform_", "").typed<Signature>();
  at::Tensor out = at::empty(shape, at::TensorOptions().device(device).dtype(at::kFloat));
  op.call(out, draw.seed, draw.step, draw.site, draw.offset);
  return out;
}

at::Tensor dropout(const at::Tensor& x, double p, const Draw& draw) {
  TORCH_CHECK(p >= 0 && p < 1, "[dropout] p must be in [0, 1) but is ", p);
  return p == 0 ? x : call_dropout(x, p, draw.seed, draw.step, draw.site, draw.offset);
}

}  // namespace siamese
