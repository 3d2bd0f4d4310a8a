// DiT: a diffusion model over any residual scheme. Patches of a noised picture (or latent), fixed positions, the shared
// stack conditioned on time and label (adaLN-Zero).
#pragma once

#include <memory>

#include "models/transformer.h"

namespace siamese {

class DiT {
 public:
  /// Parameters are allocated, not filled.
  DiT(const ModelConfig& config, const ModelOptions& options);
  DiT(const DiT&) = delete;
  DiT& operator=(const DiT&) = delete;

  Params& params() { return params_; }
  const Params& params() const { return params_; }
  const ModelConfig& config() const { return config_; }
  /// The label that stands for none; only with label dropout.
  int64_t no_label() const { return config_.classes; }
  int64_t out_channels() const { return config_.channels * (config_.learn_sigma ? 2 : 1); }
  /// Fixed positions [side², d].
  const at::Tensor& positions() const { return positions_; }

  /// x [B, C, size, size], t [B] (steps), labels [B] -> [B, out channels, size, size].
  at::Tensor predict(const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels, const Forward& forward) const;

 private:
  /// silu(MLP([cos, sin](t·exp(-ln 10000·i/128))) + label): what every adaLN matrix is applied to.
  at::Tensor condition(const at::Tensor& t, const at::Tensor& labels) const;
  /// LN(h)·(1 + scale) + shift, times the last matrix.
  at::Tensor final_layer(const at::Tensor& h, const at::Tensor& condition) const;

  ModelConfig config_;
  ModelOptions options_;
  Params params_;
  Linear patch_, time_in_, time_out_, final_modulation_, final_;
  at::Tensor labels_, positions_, frequencies_;
  std::unique_ptr<Transformer> stack_;
};

}  // namespace siamese
