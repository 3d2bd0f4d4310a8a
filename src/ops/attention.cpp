#include "ops/attention.h"

#include "ops/qkv_rope.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

struct Heads {
  Tensor q, k, v;  // [B, T, heads, dim], views of the packed tensor
};
Heads heads_of(const Tensor& packed, int64_t heads, int64_t kv_heads) {
  return {packed.narrow(2, 0, heads), packed.narrow(2, heads, kv_heads), packed.narrow(2, heads + kv_heads, kv_heads)};
}

/// What a forward pass of either library leaves for its backward pass.
struct Attended {
  Tensor out;  // [B, T, heads, dim]
  Tensor log_sums, seed, offset;
};

Attended cudnn_forward(const Heads& h) {
  const auto r = at::_scaled_dot_product_cudnn_attention(h.q.transpose(1, 2), h.k.transpose(1, 2), h.v.transpose(1, 2),
                                                         std::nullopt, /*compute_log_sumexp=*/true, 0.0,
                                                         /*is_causal=*/true, false, std::nullopt);
  return {std::get<0>(r).transpose(1, 2), std::get<1>(r), std::get<6>(r), std::get<7>(r)};
}

Heads cudnn_backward(const Tensor& g, const Heads& h, const Attended& a) {
  const int64_t t = h.q.size(1);
  const auto [gq, gk, gv] = at::_scaled_dot_product_cudnn_attention_backward(
      g.transpose(1, 2), h.q.transpose(1, 2), h.k.transpose(1, 2), h.v.transpose(1, 2), a.out.transpose(1, 2),
      a.log_sums, a.seed, a.offset, Tensor(), Tensor(), Tensor(), t, t, 0.0, /*is_causal=*/true, std::nullopt);
  return {gq.transpose(1, 2), gk.transpose(1, 2), gv.transpose(1, 2)};
}

/// `ends` undefined: each row is one sequence; otherwise the tokens of all rows are cut there.
Attended flash_forward(const Heads& h, const Tensor& ends, int64_t longest) {
  const bool packed = ends.defined();
  const std::optional<Tensor> cut = packed ? std::optional(ends) : std::nullopt;
  auto flat = [&](const Tensor& t) { return packed ? t.flatten(0, 1) : t; };
  const int64_t t = packed ? longest : h.q.size(1);
  const auto r = at::_flash_attention_forward(flat(h.q), flat(h.k), flat(h.v), cut, cut, t, t, 0.0, /*is_causal=*/true,
                                              false, std::nullopt);
  return {std::get<0>(r).view(h.q.sizes()), std::get<1>(r), std::get<2>(r), std::get<3>(r)};
}

Heads flash_backward(const Tensor& g, const Heads& h, const Attended& a, const Tensor& ends, int64_t longest) {
  const bool packed = ends.defined();
  auto flat = [&](const Tensor& t) { return packed ? t.flatten(0, 1) : t; };
  const int64_t t = packed ? longest : h.q.size(1);
  const auto [gq, gk, gv] = at::_flash_attention_backward(flat(g.contiguous()), flat(h.q), flat(h.k), flat(h.v),
                                                          flat(a.out), a.log_sums, ends, ends, t, t, 0.0,
                                                          /*is_causal=*/true, a.seed, a.offset, std::nullopt);
  return {gq.view(h.q.sizes()), gk.view(h.k.sizes()), gv.view(h.v.sizes())};
}

/// How far cuDNN's output and gradients are from plain attention in fp32 on a small example: the largest relative error
/// in the norm.
double cudnn_error(int64_t heads, int64_t kv_heads, int64_t dim, at::Device device) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  // No random numbers of LibTorch's: waves of different lengths do as well.
  const Tensor wave = at::arange(2 * 128 * (heads + 2 * kv_heads) * dim, options).mul_(0.7371).sin_();
  const Tensor packed = wave.view({2, 128, heads + 2 * kv_heads, dim}).to(at::kBFloat16);
  const Heads h = heads_of(packed, heads, kv_heads);
  const Tensor g = at::cos(h.q.to(at::kFloat) * 3.1).to(at::kBFloat16);
  const Attended a = cudnn_forward(h);
  const Heads got = cudnn_backward(g, h, a);
  std::vector<Tensor> leaves;
  for (const Tensor* t : {&h.q, &h.k, &h.v}) leaves.push_back(t->to(at::kFloat).detach().set_requires_grad(true));
  Tensor out;
  std::vector<Tensor> wanted;
  {
    const at::AutoGradMode grad(true);
    auto all_heads = [&](const Tensor& t) { return t.transpose(1, 2).repeat_interleave(heads / kv_heads, 1); };
    const Tensor scores = at::matmul(leaves[0].transpose(1, 2), all_heads(leaves[1]).transpose(-1, -2)) *
                          (1.0 / std::sqrt(static_cast<double>(dim)));
    const Tensor mask = at::ones({128, 128}, options.dtype(at::kBool)).triu(1);
    out = at::matmul(at::softmax(scores.masked_fill(mask, -1e30), -1), all_heads(leaves[2])).transpose(1, 2);
    wanted = torch::autograd::grad({out}, leaves, {g.to(at::kFloat)});
  }
  double worst = 0;
  auto compare = [&](const Tensor& x, const Tensor& y) {
    const double error = (x.to(at::kFloat) - y).norm().item<double>() / y.norm().item<double>();
    worst = std::isfinite(error) ? std::max(worst, error) : 1e30;
  };
  compare(a.out, out.detach());
  compare(got.q, wanted[0]), compare(got.k, wanted[1]), compare(got.v, wanted[2]);
  return worst;
}

struct Choice {
  bool cudnn = false;
  std::string why = "not decided yet";
};
Choice& choice() {
  static Choice c;
  return c;
}

/// Decided once for a process; head counts and sizes are those of its first model.
bool use_cudnn(int64_t heads, int64_t kv_heads, int64_t dim, at::Device device) {
  // Before the trial: cuDNN's backward pass may refuse under deterministic algorithms, and that would stand for good.
  if (at::globalContext().deterministicAlgorithms()) return false;
  static std::once_flag once;
  std::call_once(once, [&] {
    Choice& c = choice();
    try {
      const double error = cudnn_error(heads, kv_heads, dim, device);
      c.cudnn = error < 0.05;  // 0.02 by the rounding of bf16; what goes wrong goes wrong by far more
      c.why = c10::str("cuDNN differs from plain attention by ", error);
    } catch (const std::exception& e) {
      c.why = c10::str("cuDNN refused: ", std::string(e.what()).substr(0, std::string(e.what()).find('\n')));
    }
  });
  return choice().cudnn;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& qkv, const AttentionCore& core, bool cudnn,
                        at::TensorList affine) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const int64_t all = core.heads + 2 * core.kv_heads;
    const Tensor raw = qkv.view({qkv.size(0), qkv.size(1), all, core.head_dim});
    const bool normed = qkv_flags(core) != 0;
    const Tensor packed = normed ? at::empty_like(raw) : raw;
    qkv_rope_out(packed, raw, core);
    const Heads h = heads_of(packed, core.heads, core.kv_heads);
    const Attended a = cudnn ? cudnn_forward(h) : flash_forward(h, core.ends, core.longest);
    ctx->save_for_backward({packed, normed ? raw : Tensor(), a.out, a.log_sums, a.seed, a.offset, core.ends, core.cos,
                            core.sin, core.norm[0].gain, core.norm[1].gain, core.norm[2].gain, core.norm[0].bias,
                            core.norm[1].bias, core.norm[2].bias});
    ctx->saved_data["sizes"] = std::vector<int64_t>{core.heads,
                                                    core.kv_heads,
                                                    core.head_dim,
                                                    core.longest,
                                                    cudnn,
                                                    qkv_flags(core),
                                                    static_cast<int64_t>(affine.size())};
    ctx->saved_data["eps"] = qkv_eps(core);
    return a.out.reshape({qkv.size(0), qkv.size(1), core.heads * core.head_dim});
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const std::vector<int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    AttentionCore core;
    core.heads = sizes[0], core.kv_heads = sizes[1], core.head_dim = sizes[2], core.longest = sizes[3];
    core.ends = s[6], core.cos = s[7], core.sin = s[8];
    for (size_t i = 0; i < 3; ++i) {
      core.norm[i].on = (sizes[5] & (kQkvNormQ << i)) != 0;
      core.norm[i].kind = (sizes[5] & kQkvLayer) != 0 ? NormKind::layer : NormKind::rms;
      core.norm[i].eps = ctx->saved_data["eps"].toDouble();
      core.norm[i].gain = s[9 + i], core.norm[i].bias = s[12 + i];
    }
    const Tensor& packed = s[0];
    const Heads h = heads_of(packed, core.heads, core.kv_heads);
    const Attended a{s[2], s[3], s[4], s[5]};
    const Tensor g = grads[0].reshape(h.q.sizes());
    const Heads gh = sizes[4] != 0 ? cudnn_backward(g, h, a) : flash_backward(g, h, a, core.ends, core.longest);
    const std::vector<Tensor> all = qkv_rope_backward(gh.q, gh.k, gh.v, s[1].defined() ? s[1] : packed, core);
    variable_list result{all[0].flatten(2), Tensor(), Tensor()};
    for (size_t i = 1; i < all.size(); ++i)
      if (s[8 + i].defined()) result.push_back(all[i]);
    result.resize(3 + static_cast<size_t>(sizes[6]));
    return result;
  }
};

}  // namespace

bool attention_core_fits(const Tensor& qkv, const AttentionCore& core) {
  const int64_t d = core.head_dim;
  if (!qkv.is_cuda() || qkv.scalar_type() != at::kBFloat16 || !qkv_has_cuda() || !qkv.is_contiguous()) return false;
  const Norm* first = nullptr;
  for (const Norm& n : core.norm) {
    if (!n.on) continue;
    if (first == nullptr) first = &n;
    if (n.kind != first->kind || n.eps != first->eps) return false;
  }
  return d >= 16 && d <= 256 && (d & (d - 1)) == 0;
}

Tensor attention_core(const Tensor& qkv, const AttentionCore& core) {
  std::vector<Tensor> affine;
  for (const Tensor& t : qkv_affine(core))
    if (t.defined()) affine.push_back(t);
  // Before the function: the check compares gradients, which autograd would not take inside it.
  const bool cudnn = !core.ends.defined() && use_cudnn(core.heads, core.kv_heads, core.head_dim, qkv.device());
  return AttentionFunction::apply(qkv, core, cudnn, at::TensorList(affine));
}

std::string attention_backend() {
  const Choice& c = choice();
  const bool deterministic = at::globalContext().deterministicAlgorithms();
  return std::string(c.cudnn && !deterministic ? "cudnn" : "flash") + " (" + c.why +
         (deterministic ? "; deterministic algorithms are asked for)" : ")");
}

}  // namespace siamese
