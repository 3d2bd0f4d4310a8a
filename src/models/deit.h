// DeiT: an image classifier over any residual scheme. Patches, a class token, learned positions, the shared stack; with
// `distilled` a second token whose head learns from a teacher.
#pragma once

#include <memory>

#include "models/transformer.h"

namespace siamese {

/// Of both heads; `distilled` is undefined without a second one.
struct DeitLogits {
  at::Tensor classes, distilled;

  /// What evaluation looks at: the mean of both.
  at::Tensor mean() const { return distilled.defined() ? (classes + distilled) / 2 : classes; }
};

class DeiT {
 public:
  /// Parameters are allocated, not filled.
  DeiT(const ModelConfig& config, const ModelOptions& options);
  DeiT(const DeiT&) = delete;
  DeiT& operator=(const DeiT&) = delete;

  Params& params() { return params_; }
  const Params& params() const { return params_; }
  const ModelConfig& config() const { return config_; }

  /// images [B, C, size, size] -> [B, classes]. On two heads while training, on their mean where asked.
  DeitLogits logits(const at::Tensor& images, const Forward& forward) const;
  /// What the heads see of the class token (and the second one): [B, tokens, d].
  at::Tensor features(const at::Tensor& images, const Forward& forward) const;
  int64_t prefix() const { return config_.distilled ? 2 : 1; }

 private:
  ModelConfig config_;
  ModelOptions options_;
  Params params_;
  Linear patch_, head_, head_distilled_;
  at::Tensor class_token_, distilled_token_, positions_;
  std::unique_ptr<Transformer> stack_;
};

}  // namespace siamese
