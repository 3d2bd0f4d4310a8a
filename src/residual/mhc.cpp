// mhc: maps from z = N(flattened H), stream by stream; each logit is s·(z φ) + b, φ = 0, s = 0.01 at the start:
//   read = σ(..), write = 2σ(..), residual [to, from] = Sinkhorn(exp(..)): 20 rounds of dividing by the column sums
//   (over `to`), then by the row sums (over `from`), in fp32. b_read = b_write = 0, b_residual 0 on and -8 off the
//   diagonal.
#include <ATen/ATen.h>

#include "residual/hyper.h"
#include "residual/schemes.h"

namespace siamese {
namespace {

constexpr int kSinkhornRounds = 20;

class Mhc final : public HyperConnections {
 public:
  explicit Mhc(const SchemeContext& c) : HyperConnections(c) {
    const int64_t width = n_ * c.config.d_model;
    const InitSpec zero{InitSpec::constant, 0.0}, small{InitSpec::constant, 0.01};
    for (int k = 0; k < 2 * c.blocks(); ++k) {
      const Site site{k};
      auto map = [&](const std::string& name, int64_t columns, at::IntArrayRef shape, const InitSpec& bias) {
        return Map{add_hyper(c, site, "phi_" + name, {width, columns}, zero),
                   add_hyper(c, site, "b_" + name, shape, bias), add_hyper(c, site, "s_" + name, {}, small)};
      };
      sites_.push_back({c.norm(hyper_name(site, "norm"), width), map("pre", n_, {n_}, zero),
                        map("post", n_, {n_}, zero), map("res", n_ * n_, {n_, n_}, {InitSpec::diagonal, 0.0, -8.0})});
    }
  }

 protected:
  HyperMaps maps(const at::Tensor& h, const Site& site) const override {
    const Maps& p = sites_[static_cast<size_t>(site.k)];
    const at::Tensor z = normed(h.flatten(-2), p.norm);
    // The column's largest logit cancels in the first division; without it exp could overflow.
    const at::Tensor raw = logits(z, p.residual);
    at::Tensor m = at::exp(raw - raw.detach().amax(-2, true));
    for (int round = 0; round < kSinkhornRounds; ++round) {
      m = m / m.sum(-2, true);
      m = m / m.sum(-1, true);
    }
    return {at::sigmoid(logits(z, p.read)).to(dtype_), m, (2.0 * at::sigmoid(logits(z, p.write))).to(dtype_)};
  }

  void describe_maps(HyperStepInput& in, const Site& site) const override {
    const Maps& p = sites_[static_cast<size_t>(site.k)];
    in.kind = HyperKind::mhc;
    in.map_norm = p.norm;
    in.maps = {p.read.phi,   p.write.phi, p.residual.phi, p.read.b,    p.write.b,
               p.residual.b, p.read.s,    p.write.s,      p.residual.s};
  }

 private:
  struct Map {
    at::Tensor phi, b, s;
  };
  struct Maps {
    Norm norm;
    Map read, write, residual;
  };

  /// s·(z φ) + b, shaped [B, T] + b's shape, in fp32 (fp64).
  at::Tensor logits(const at::Tensor& z, const Map& map) const {
    std::vector<int64_t> shape(z.sizes().begin(), z.sizes().end() - 1);
    shape.insert(shape.end(), map.b.sizes().begin(), map.b.sizes().end());
    return map.s.to(exact()) * at::matmul(z, map.phi).to(exact()).view(shape) + map.b.to(exact());
  }

  std::vector<Maps> sites_;
};

}  // namespace

std::unique_ptr<Scheme> make_mhc(const SchemeContext& c) { return std::make_unique<Mhc>(c); }

}  // namespace siamese
