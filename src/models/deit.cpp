#include "models/deit.h"

#include <ATen/ATen.h>

#include <cmath>

#include "nn/patches.h"
#include "util/error.h"

namespace siamese {

DeiT::DeiT(const ModelConfig& config, const ModelOptions& options)
    : config_(config), options_(options), params_(options.dtype, options.device) {
  const int64_t d = config_.d_model, p = config_.patch_size, side = config_.image_size / p;
  if (config_.classes <= 0) fail("model.classes is {}: it must be set or come from the data", config_.classes);
  const InitSpec normal{InitSpec::normal, config_.init.std, config_.init.cutoff};
  // A convolution's own start: uniform in ±1/sqrt(values of a patch).
  const int64_t values = config_.channels * p * p;
  patch_ = Linear::make(params_, "patch_embed", values, d, true,
                        {InitSpec::uniform, 1.0 / std::sqrt(static_cast<double>(values))});
  class_token_ = params_.add("cls_token", {1, 1, d}, ParamKind::embedding, normal);
  if (config_.distilled) distilled_token_ = params_.add("dist_token", {1, 1, d}, ParamKind::embedding, normal);
  positions_ = params_.add("pos_embed", {1, prefix() + side * side, d}, ParamKind::embedding, normal);
  stack_ = std::make_unique<Transformer>(config_, options_, params_, /*causal=*/false, /*conditioned=*/false);
  head_ = Linear::make(params_, "head", d, config_.classes, true, normal);
  if (config_.distilled) head_distilled_ = Linear::make(params_, "head_dist", d, config_.classes, true, normal);
}

at::Tensor DeiT::features(const at::Tensor& images, const Forward& forward) const {
  const int64_t b = images.size(0), d = config_.d_model;
  std::vector<at::Tensor> tokens{class_token_.expand({b, 1, d})};
  if (config_.distilled) tokens.push_back(distilled_token_.expand({b, 1, d}));
  tokens.push_back(patch_(to_patches(images.to(options_.dtype), config_.patch_size)));
  at::Tensor e = at::cat(tokens, 1) + positions_;
  forward.see("embedding", e);
  if (forward.training) e = dropout(e, config_.embedding_dropout, forward.draw(e, kEmbeddingDropout, 0));
  return (*stack_)(e, forward).slice(1, 0, prefix());
}

DeitLogits DeiT::logits(const at::Tensor& images, const Forward& forward) const {
  const at::Tensor h = features(images, forward);
  DeitLogits out{head_(h.select(1, 0)), {}};
  if (config_.distilled) out.distilled = head_distilled_(h.select(1, 1));
  forward.see("logits", out.mean());
  return out;
}

}  // namespace siamese
