// What the tests of image models share: small configurations, inputs and a loss for either family, on any device.
#pragma once

#include "models/deit.h"
#include "models/dit.h"
#include "scheme_cases.h"

namespace siamese {

constexpr int64_t kImageBatch = 2;

inline ModelConfig image_config(ModelConfig c, const std::string& family) {
  c.family = family;
  c.d_model = 8, c.n_heads = 2, c.n_kv_heads = 2, c.mlp_hidden_size = 16;
  c.norm = "layer";
  c.norm_bias = c.bias = true;
  c.activation = family == "dit" ? "gelu_tanh" : "gelu";
  c.init.kind = family == "dit" ? "xavier" : "normal";
  c.image_size = 8, c.patch_size = 4, c.channels = 3, c.classes = 5;
  return c;
}

/// In the model's type, on its device.
inline at::Tensor test_pictures(const ModelConfig& c, const Params& params) {
  return random_normal({kImageBatch, c.channels, c.image_size, c.image_size}, 5).to(params.device(), params.dtype());
}
inline at::Tensor test_steps(at::Device device = at::kCPU) { return at::tensor({3, 700}, at::kLong).to(device); }
inline at::Tensor test_labels(at::Device device = at::kCPU) { return at::tensor({1, 4}, at::kLong).to(device); }

inline at::Tensor image_loss(const DeiT& model, const Forward& forward = {}) {
  const DeitLogits logits = model.logits(test_pictures(model.config(), model.params()), forward);
  const auto type = logits.classes.scalar_type() == at::kBFloat16 ? at::kFloat : logits.classes.scalar_type();
  return at::cross_entropy_loss(logits.mean().to(type), test_labels(model.params().device()));
}
inline at::Tensor image_loss(const DiT& model, const Forward& forward = {}) {
  const at::Device device = model.params().device();
  const at::Tensor out =
      model.predict(test_pictures(model.config(), model.params()), test_steps(device), test_labels(device), forward);
  return (out * random_normal(out.sizes(), 6).to(device, out.scalar_type())).sum();
}

}  // namespace siamese
