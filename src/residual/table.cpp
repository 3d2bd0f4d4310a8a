// The table of schemes: a new scheme is one new file and one row here.
#include "residual/schemes.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {

const std::vector<SchemeInfo>& scheme_table() {
  static const std::vector<SchemeInfo> table = {
      {"pre", "x += F(N(x))", "N(x)", "Pre-Norm", make_pre},
      {"post", "x = N(x); x += F(x)", "N(x)", "Post-Norm, norm at the start of each sub-layer", make_post},
      {"deepnorm", "x = N(a x + F(x)), a = (2L)^(1/4)", "x", "DeepNorm", make_deepnorm},
      {"keel", "x = N(a x + F(N_in(x))), a = 2L", "x", "Keel", make_keel},
      {"mix_ln", "x = N(x + F(x)) in the first floor(f L) blocks, then as pre", "N(x)", "Mix-LN; option mix_fraction",
       make_mix_ln},
      {"ln_scaling", "x += F(N(x) / sqrt(l+1))", "N(x)", "LayerNorm Scaling", make_ln_scaling},
      {"reordered", "x += N(F(x))", "N(x)", "OLMo-2", make_reordered},
      {"sandwich", "x += N2(F(N1(x)))", "N(x)", "Sandwich-Norm", make_sandwich},
      {"peri", "as sandwich, embedding normed", "N(x)", "Peri-LN", make_peri},
      {"hybrid", "x += Attn_qkv(x); x = N(x); x += FF(x)", "N(x)", "HybridNorm", make_hybrid},
      {"hybrid_star", "block 0: x += F(N(x)); then as hybrid", "N(x)", "HybridNorm*", make_hybrid_star},
      {"span", "m = FF(N_mid(x + a)), a = Attn(x); x = N_out(x + a + m)", "x",
       "SpanNorm, a reading of its abstract; option span_aggregate", make_span},
      {"resi_dual", "r = F(x); x = N(x + r); y += r", "x + N(y)", "ResiDual", make_resi_dual},
      {"hc_static", "h = A_m H; H = A_r^T H + B F(N(h))", "N(sum H)", "Hyper-Connections; option streams",
       make_hc_static},
      {"hc_dynamic", "hc_static, maps + s tanh(N(H) W)", "N(sum H)", "Dynamic Hyper-Connections; option streams",
       make_hc_dynamic},
      {"mhc", "H = Sinkhorn(..) H + 2 sigma(..) F(N(sigma(..) H))", "N(sum H)",
       "Manifold-constrained HC; option streams", make_mhc},
      {"siamese", "x = N_x(x); r = F(N_in(x + N_y(y))); x += r/c; y += r", "N(N(x) + N(y))",
       "SiameseNorm post-pre; options input_norm, depth_scale", make_siamese},
      {"siamese_hybrid", "Attn_qkv(c1 x + N_y(y)); FF as siamese; x += r/c; y += r", "N(N(x) + N(y))",
       "SiameseNorm hybrid-pre, the paper's best; options input_norm, depth_scale", make_siamese_hybrid},
  };
  return table;
}

std::unique_ptr<Scheme> make_scheme(const SchemeContext& context) {
  std::vector<std::string> names;
  for (const SchemeInfo& info : scheme_table()) {
    if (context.config.scheme == info.name) return info.make(context);
    names.emplace_back(info.name);
  }
  const std::string near = nearest(context.config.scheme, names);
  fail("model.scheme '{}' is unknown{}", context.config.scheme, near.empty() ? "" : "; did you mean '" + near + "'?");
}

}  // namespace siamese
