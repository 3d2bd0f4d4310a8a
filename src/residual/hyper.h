// Shared by the hyper-connections: n streams H [B, T, n, d], one matrix row a stream. Fused, one step
// (ops/hyper_step.h) writes, takes the maps and reads; plain, LibTorch operations do the same one by one.
#pragma once

#include "ops/hyper_step.h"
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
  /// The same for the fused step: kind, norm and parameters of the maps at `site`.
  virtual void describe_maps(HyperStepInput& in, const Site& site) const = 0;
  Streams apply(Streams s, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const override;
  /// fp32, or fp64 for fp64 streams.
  at::ScalarType exact() const { return dtype_ == at::kDouble ? at::kDouble : at::kFloat; }

  const int64_t n_;

 private:
  /// The fused step on `s` and its pending update, gate and row scale multiplied in.
  HyperStepInput step_of(const Streams& s) const;
  /// Whether the fused step may take over: not between the plain read and write, where s = {mixed streams, B}.
  bool may_step(const Streams& s) const { return fused_ && s.s.size() != 2; }

  std::vector<Norm> norm_;
  Norm end_;
};

/// Adds a parameter `transformer.blocks.<l>.<attn|ff>_hc.<name>`.
at::Tensor add_hyper(const SchemeContext& c, const Site& site, const std::string& name, at::IntArrayRef shape,
                     const InitSpec& init);
std::string hyper_name(const Site& site, const std::string& name);

}  // namespace siamese
