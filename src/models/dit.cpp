#include "models/dit.h"

#include <ATen/ATen.h>

#include <cmath>

#include "models/init.h"
#include "nn/patches.h"
#include "ops/embedding.h"
#include "util/error.h"

namespace siamese {
namespace {

constexpr int64_t kFrequencies = 128;

}  // namespace

DiT::DiT(const ModelConfig& config, const ModelOptions& options)
    : config_(config), options_(options), params_(options.dtype, options.device) {
  const int64_t d = config_.d_model, p = config_.patch_size, side = config_.image_size / p;
  if (config_.classes <= 0) fail("model.classes is {}: it must be set or come from the data", config_.classes);
  const InitSpec normal{InitSpec::normal, 0.02, config_.init.cutoff}, zero{InitSpec::constant, 0.0};
  const int64_t values = config_.channels * p * p;
  patch_ = Linear::make(params_, "patch_embed", values, d, true, xavier(values, d));
  time_in_ = Linear::make(params_, "time_embed.in", 2 * kFrequencies, d, true, normal);
  time_out_ = Linear::make(params_, "time_embed.out", d, d, true, normal);
  // One row more for "no label" only where labels are dropped.
  labels_ = params_.add("label_embed.weight", {config_.classes + (config_.label_dropout > 0 ? 1 : 0), d},
                        ParamKind::embedding, normal);
  stack_ = std::make_unique<Transformer>(config_, options_, params_, /*causal=*/false, /*conditioned=*/true);
  final_modulation_ = Linear::make(params_, "final.adaln", d, 2 * d, true, zero);
  final_ = Linear::make(params_, "final.linear", d, p * p * out_channels(), true, zero);
  const auto exact = options_.dtype == at::kDouble ? at::kDouble : at::kFloat;
  positions_ = sine_positions(side, d).to(options_.device, options_.dtype);
  frequencies_ = at::exp(at::arange(kFrequencies, exact) * (-std::log(10000.0) / kFrequencies)).to(options_.device);
}

at::Tensor DiT::condition(const at::Tensor& t, const at::Tensor& labels) const {
  const at::Tensor angle = t.to(frequencies_.scalar_type()).unsqueeze(1) * frequencies_;
  const at::Tensor time = time_out_(at::silu(time_in_(at::cat({angle.cos(), angle.sin()}, 1).to(options_.dtype))));
  return at::silu(time + embed_tokens(labels_, labels.unsqueeze(1), config_.fused).squeeze(1));
}

at::Tensor DiT::final_layer(const at::Tensor& h, const at::Tensor& condition) const {
  const std::vector<at::Tensor> m = final_modulation_(condition).chunk(2, 1);
  StreamStepInput in;
  in.y = h;
  in.norm_y = {true, NormKind::layer, config_.norm_eps, {}, {}};
  in.shift = m[0], in.scale = m[1];
  in.dtype = options_.dtype;
  const bool fused = config_.fused && stream_step_fusable(in);
  return final_((fused ? stream_step(in) : stream_step_plain(in)).z);
}

at::Tensor DiT::predict(const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels,
                        const Forward& forward) const {
  const at::Tensor c = condition(t, labels);
  forward.see("condition", c);
  const at::Tensor e = patch_(to_patches(x.to(options_.dtype), config_.patch_size)) + positions_;
  forward.see("embedding", e);
  const at::Tensor out = final_layer((*stack_)(e, forward, c), c);
  forward.see("prediction", out);
  return from_patches(out, config_.patch_size, out_channels());
}

}  // namespace siamese
