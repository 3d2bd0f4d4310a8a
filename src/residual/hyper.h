// Shared by the hyper-connections: n streams H [B, T, n, d], one matrix row a stream.
#pragma once

#include "residual/scheme.h"

namespace siamese {

/// What one sub-layer does with the streams, for all tokens ([n], [n, n]) or per token ([B, T, n], [B, T, n, n]).
struct HyperMaps {
  at::Tensor read;      // h = Σ_i read[i]·H_i
  at::Tensor residual;  // [to, from]: H'_to = Σ_from residual[to, from]·H_from
  at::Tensor write;     // H'_i += write[i]·r
};

class HyperConnections : public Scheme {
 public:
  explicit HyperConnections(const SchemeContext& c);
  Streams start(const at::Tensor& embedding) const override;
  Read read(Streams s, const Site& site, const Modulation& m) const override;
  at::Tensor finish(Streams s) const override;

 protected:
  virtual HyperMaps maps(const at::Tensor& streams, const Site& site) const = 0;
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override;
  /// fp32, or fp64 for fp64 streams.
  at::ScalarType exact() const { return dtype_ == at::kDouble ? at::kDouble : at::kFloat; }

  const int64_t n_;

 private:
  std::vector<Norm> norm_;
  Norm end_;
};

/// Adds a parameter `transformer.blocks.<l>.<attn|ff>_hc.<name>`.
at::Tensor add_hyper(const SchemeContext& c, const Site& site, const std::string& name, at::IntArrayRef shape,
                     const InitSpec& init);
std::string hyper_name(const Site& site, const std::string& name);

}  // namespace siamese
