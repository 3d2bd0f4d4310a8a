// hc_dynamic: each map of hc_static plus s·tanh(N(H) W), W = 0 and s = 0.01 at the start. s_alpha serves A_m and A_r.
#include <ATen/ATen.h>

#include "residual/hc_static.h"
#include "residual/schemes.h"

namespace siamese {
namespace {

class HcDynamic final : public HcStatic {
 public:
  explicit HcDynamic(const SchemeContext& c) : HcStatic(c) {
    const int64_t d = c.config.d_model;
    for (int k = 0; k < 2 * c.blocks(); ++k) {
      const Site site{k};
      const InitSpec zero{InitSpec::constant, 0.0}, small{InitSpec::constant, 0.01};
      dynamic_.push_back({c.norm(hyper_name(site, "norm")), add_hyper(c, site, "w_m", {d}, zero),
                          add_hyper(c, site, "w_r", {d, n_}, zero), add_hyper(c, site, "w_b", {d}, zero),
                          add_hyper(c, site, "s_alpha", {}, small), add_hyper(c, site, "s_beta", {}, small)});
    }
  }

 protected:
  HyperMaps maps(const at::Tensor& h, const Site& site) const override {
    const Static& p = static_[static_cast<size_t>(site.k)];
    const Dynamic& q = dynamic_[static_cast<size_t>(site.k)];
    const at::Tensor z = normed(h, q.norm);  // [B, T, n, d]
    // alpha_r and w_r are [from, to]; the residual map is [to, from].
    const at::Tensor alpha_r = p.alpha_r + q.s_alpha * at::tanh(at::matmul(z, q.w_r));
    return {p.alpha_m + q.s_alpha * at::tanh(at::matmul(z, q.w_m)), alpha_r.transpose(-1, -2),
            p.beta + q.s_beta * at::tanh(at::matmul(z, q.w_b))};
  }

  void describe_maps(HyperStepInput& in, const Site& site) const override {
    HcStatic::describe_maps(in, site);
    const Dynamic& q = dynamic_[static_cast<size_t>(site.k)];
    in.kind = HyperKind::dynamic;
    in.map_norm = q.norm;
    in.maps.insert(in.maps.end(), {q.w_m, q.w_r, q.w_b, q.s_alpha, q.s_beta});
  }

 private:
  struct Dynamic {
    Norm norm;
    at::Tensor w_m, w_r, w_b, s_alpha, s_beta;
  };
  std::vector<Dynamic> dynamic_;
};

}  // namespace

std::unique_ptr<Scheme> make_hc_dynamic(const SchemeContext& c) { return std::make_unique<HcDynamic>(c); }

}  // namespace siamese
