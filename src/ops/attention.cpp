#include "ops/attention.h"

#include "ops/attention_choice.h"
#include "ops/attention_library.h"
#include "ops/attention_norms.h"
#include "ops/gpu_tools.h"
#include "ops/own_attention.h"
#include "ops/qkv_rope.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

/// Who made the forward pass, and whether the backward pass is ours.
enum Maker : int64_t { kFlash, kCudnn, kOwn };

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& qkv, const AttentionCore& core,
                        int64_t maker, bool own_backward, at::TensorList affine) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const int64_t all = core.heads + 2 * core.kv_heads;
    const Tensor raw = qkv.view({qkv.size(0), qkv.size(1), all, core.head_dim});
    const bool normed = qkv_flags(core) != 0 && !core.kept.rho.defined();
    const Tensor packed = normed ? at::empty_like(raw) : raw;
    if (!core.turned) qkv_rope_out(packed, raw, core);
    const Heads h = heads_of(packed, core.heads, core.kv_heads);
    Attended a;
    if (maker == kOwn) {
      std::tie(a.out, a.log_sums) = own_attention(packed, core.heads, core.kv_heads);
    } else {
      a = maker == kCudnn ? cudnn_forward(h) : flash_forward(h, core.ends, core.longest);
    }
    ctx->save_for_backward({packed, normed ? raw : Tensor(), a.out, a.log_sums, a.seed, a.offset, core.ends, core.cos,
                            core.sin, core.norm[0].gain, core.norm[1].gain, core.norm[2].gain, core.norm[0].bias,
                            core.norm[1].bias, core.norm[2].bias, core.kept.raw, core.kept.rho});
    ctx->saved_data["sizes"] = std::vector<int64_t>{core.heads,
                                                    core.kv_heads,
                                                    core.head_dim,
                                                    core.longest,
                                                    maker,
                                                    qkv_flags(core),
                                                    static_cast<int64_t>(affine.size()),
                                                    own_backward,
                                                    core.kept.lean};
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
    if (s[16].defined()) {
      const auto [g_projection, g_gains] = attention_norms_backward(
          g.contiguous(), packed, a.out, a.log_sums, sizes[4] != kOwn,
          {core.cos, core.sin, {core.norm[0].gain, core.norm[1].gain, core.norm[2].gain}, s[15], s[16], sizes[8] != 0});
      return {g_projection.flatten(2), Tensor(), Tensor(), Tensor(), g_gains[0], g_gains[1], g_gains[2]};
    }
    const bool normed = s[1].defined();
    Heads gh;
    if (sizes[7] != 0) {
      // Without norms the rotation is turned back on the way: this is the gradient of the projection.
      const Tensor packed_g =
          own_attention_backward(g.contiguous(), packed, a.out, a.log_sums, sizes[4] != kOwn,
                                 normed ? Tensor() : core.cos, normed ? Tensor() : core.sin, core.heads, core.kv_heads);
      if (!normed) {
        variable_list result{packed_g.flatten(2)};
        result.resize(4 + static_cast<size_t>(sizes[6]));
        return result;
      }
      gh = heads_of(packed_g, core.heads, core.kv_heads);
    } else {
      gh = sizes[4] == kCudnn ? cudnn_backward(g, h, a) : flash_backward(g, h, a, core.ends, core.longest);
    }
    const std::vector<Tensor> all = qkv_rope_backward(gh.q, gh.k, gh.v, normed ? s[1] : packed, core);
    variable_list result{all[0].flatten(2), Tensor(), Tensor(), Tensor()};
    for (size_t i = 1; i < all.size(); ++i)
      if (s[8 + i].defined()) result.push_back(all[i]);
    result.resize(4 + static_cast<size_t>(sizes[6]));
    return result;
  }
};

/// After cuDNN's forward pass. In one pass ours is faster than cuDNN's: 0.89 against 1.08 ms on an H200 (16 × 2048
/// tokens, 16 heads). In two it is 6 % slower, but where nothing is normed it saves a pass over the gradients, which
/// counts less the longer the rows and the fewer the keys' heads.
bool own_backward_pays(const Tensor& qkv, const AttentionCore& core) {
  const int64_t length = qkv.size(1);
  return gpu_tools()->attention_in_one_pass(qkv.size(0), length, core.heads, core.kv_heads) ||
         (qkv_flags(core) == 0 && 1000 * (core.heads + 2 * core.kv_heads) >= core.heads * length);
}

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

bool attention_takes_normed(int64_t batch, int64_t length, const AttentionCore& core, const Tensor& weight) {
  const at::Device device = weight.device();
  const AttentionShape shape{core.heads, core.kv_heads, core.head_dim};
  if (core.ends.defined() || !norms_inside_serve(batch, length, shape, weight.size(1), device)) return false;
  for (const Norm& n : core.norm)
    if (!n.on || n.kind != NormKind::rms || n.eps != core.norm[0].eps || !n.gain.defined() || n.bias.defined() ||
        n.gain.scalar_type() != at::kBFloat16)
      return false;
  return attention_choice(shape, device).own && attention_norms_right(core.heads, device);
}

Tensor attention_core(const Tensor& qkv, const AttentionCore& core) {
  std::vector<Tensor> affine;
  for (const Tensor& t : qkv_affine(core))
    if (t.defined()) affine.push_back(t);
  int64_t maker = kFlash;  // the one with documents of several lengths
  bool own = false;
  if (!core.ends.defined()) {
    const AttentionChoice& choice = attention_choice({core.heads, core.kv_heads, core.head_dim}, qkv.device());
    maker = choice.cudnn ? kCudnn : choice.own ? kOwn : kFlash;
    own = choice.own && (maker == kOwn || core.kept.rho.defined() || own_backward_pays(qkv, core));
  }
  return AttentionFunction::apply(qkv, core, maker, own, at::TensorList(affine));
}

}  // namespace siamese
