// How far a whole model's gradients in bf16 are from those in fp32: fused against plain.
#pragma once

#include <cmath>

#include "tiny.h"

namespace siamese {

/// Of all gradients as one vector g, with g* what fp32 says.
struct GradientError {
  double size;  // ‖g - g*‖ / ‖g*‖
  double along;  // ⟨g - g*, g*⟩ / ⟨g*, g*⟩: a step too long or too short, which no averaging over steps takes away
  double worst;  // the largest ‖g - g*‖ / ‖g*‖ of a parameter
  std::string worst_name;
};

class GradientErrors {
 public:
  /// Weights that bf16 can say, so that all models have the same.
  GradientErrors(const ModelConfig& config, at::Device device, at::Tensor ids)
      : config_(config), device_(device), ids_(std::move(ids)) {
    ModelConfig plain = config;
    plain.fused = false;
    exact_ = model(plain, at::kFloat, at::kFloat);
    fill_randomly(exact_->params());
    {
      const at::NoGradGuard no_grad;
      for (const Parameter& p : exact_->params().all()) p.value.copy_(p.value.to(at::kBFloat16));
    }
    wanted_ = gradients(exact_->loss(ids_, {}).total, exact_->params());
  }

  GradientError of(bool fused, at::ScalarType stream) const {
    ModelConfig config = config_;
    config.fused = fused;
    const auto narrow = model(config, at::kBFloat16, stream);
    copy_weights(exact_->params(), narrow->params());
    const std::vector<at::Tensor> got = gradients(narrow->loss(ids_, {}).total, narrow->params());
    GradientError e{0, 0, 0, ""};
    double all = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const at::Tensor d = got[i].to(at::kFloat) - wanted_[i];
      const double square = d.square().sum().item<double>(), norm = wanted_[i].square().sum().item<double>();
      e.size += square, all += norm;
      e.along += (d * wanted_[i]).sum().item<double>();
      if (const double own = std::sqrt(square / (norm + 1e-30)); own > e.worst)
        e.worst = own, e.worst_name = exact_->params().all()[i].name;
    }
    e.size = std::sqrt(e.size / all), e.along /= all;
    return e;
  }

 private:
  std::unique_ptr<LanguageModel> model(const ModelConfig& config, at::ScalarType dtype, at::ScalarType stream) const {
    ModelOptions options;
    options.device = device_, options.dtype = dtype, options.stream_dtype = stream;
    if (dtype == at::kFloat) options.recompute = Recompute::block;  // of a big model plain attention would fill memory
    return std::make_unique<LanguageModel>(config, options);
  }

  ModelConfig config_;
  at::Device device_;
  at::Tensor ids_;
  std::unique_ptr<LanguageModel> exact_;
  std::vector<at::Tensor> wanted_;
};

}  // namespace siamese
