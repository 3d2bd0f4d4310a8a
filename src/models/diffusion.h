// Gaussian diffusion as in DiT: the forward process, the training loss and the reverse step's distribution.
//
//   ᾱ_t = Π (1 - β_s),  x_t = sqrt(ᾱ_t)·x_0 + sqrt(1-ᾱ_t)·ε
//   q(x_{t-1} | x_t, x_0) = N(c1·x_0 + c2·x_t, β̃_t)
//   c1 = β_t·sqrt(ᾱ_{t-1})/(1-ᾱ_t),  c2 = (1-ᾱ_{t-1})·sqrt(1-β_t)/(1-ᾱ_t),  β̃_t = β_t·(1-ᾱ_{t-1})/(1-ᾱ_t)
//
// A model's output is [prediction, s] on the channel axis with learned sigma, else the prediction alone, which is
//   epsilon:  ε;  x_0 = x_t/sqrt(ᾱ_t) - sqrt(1/ᾱ_t - 1)·ε
//   v:        v = sqrt(ᾱ_t)·ε - sqrt(1-ᾱ_t)·x_0;  x_0 = sqrt(ᾱ_t)·x_t - sqrt(1-ᾱ_t)·v
//
// Tensors are [batch, channels, ...], steps t are [batch] int64 on the tensors' device and count this process (0 …
// steps()-1); the model is told original_steps(t). fp64 tensors are computed in fp64, all others in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "recipe/recipe.h"

namespace siamese {

/// Variance of p(x_{t-1} | x_t):
///   learned_range: ln σ² = f·ln β + (1-f)·ln β̃,  f = (s+1)/2
///   fixed_large:   β;   fixed_small: β̃
/// β̃_0 is 0, so its logarithm is taken at step 1; fixed_large takes β̃_1 at step 0 as well, for the likelihood there.
enum class Variance { learned_range, fixed_large, fixed_small };

/// Of DiT's `create_diffusion`: without learned sigma it is FIXED_LARGE, `sigma_small` being off by default.
constexpr Variance variance_for(bool learn_sigma) {
  return learn_sigma ? Variance::learned_range : Variance::fixed_large;
}

/// Each [batch], a mean over everything but the batch. `vb` is undefined with a fixed variance, and loss = mse.
struct DiffusionLosses {
  at::Tensor mse, vb, loss;
};

/// p(x_{t-1} | x_t) and the x_0 it was made from; all of x_t's shape.
struct ReverseStep {
  at::Tensor mean, variance, log_variance, pred_xstart;
};

class Diffusion {
 public:
  /// `respace` > 0: the process over that many of config.steps. The coefficients are laid out on `device` here and
  /// looked up there by t: no later call waits for the host, so that a training step can be captured as a CUDA graph.
  Diffusion(const DiffusionConfig& config, Variance variance, int64_t respace = 0, at::Device device = at::kCPU);

  int64_t steps() const { return static_cast<int64_t>(betas_.size()); }
  at::Device device() const { return table32_.device(); }
  const std::vector<double>& betas() const { return betas_; }
  const std::vector<double>& alphas_cumprod() const { return alphas_cumprod_; }
  /// The original step of each step of this process.
  const std::vector<int64_t>& timestep_map() const { return map_; }
  at::Tensor original_steps(const at::Tensor& t) const;

  at::Tensor q_sample(const at::Tensor& x0, const at::Tensor& t, const at::Tensor& noise) const;
  /// What the model's prediction should be.
  at::Tensor target(const at::Tensor& x0, const at::Tensor& t, const at::Tensor& noise) const;
  /// loss = mse + vb. vb is one term of the variational bound, in bits a value: KL(q(x_{t-1} | x_t, x_0) ‖ p), and at
  /// t = 0 -ln p(x_0 | x_1) of 8-bit values. It trains s alone: the prediction is detached in it.
  DiffusionLosses training_losses(const at::Tensor& model_output, const at::Tensor& x0, const at::Tensor& x_t,
                                  const at::Tensor& t, const at::Tensor& noise) const;

  /// `clip`: x_0 is clamped to [-1, 1].
  ReverseStep p_mean_variance(const at::Tensor& model_output, const at::Tensor& x_t, const at::Tensor& t,
                              bool clip) const;
  /// x_{t-1} = mean + σ·noise; at t = 0 the mean.
  at::Tensor ddpm_step(const ReverseStep& p, const at::Tensor& t, const at::Tensor& noise) const;
  /// x_{t-1} = sqrt(ᾱ_{t-1})·x_0 + sqrt(1-ᾱ_{t-1}-σ²)·ε + σ·noise with σ = η·sqrt(β̃_t), which is 0 at t = 0, and the ε
  /// that leads from x_0 to x_t. `noise` may be undefined where η is 0.
  at::Tensor ddim_step(const ReverseStep& p, const at::Tensor& x_t, const at::Tensor& t, double eta,
                       const at::Tensor& noise) const;

 private:
  at::Tensor look_up(const at::Tensor& t, const at::Tensor& like) const;
  void check_output(const at::Tensor& model_output, const at::Tensor& x) const;
  ReverseStep reverse(const at::Tensor& prediction, const at::Tensor& s, const at::Tensor& x_t, const at::Tensor& c,
                      bool clip) const;

  Variance variance_;
  bool predict_v_;
  std::vector<double> betas_, alphas_cumprod_;
  std::vector<int64_t> map_;
  at::Tensor table64_, table32_;  // [rows, steps]
  at::Tensor map_on_device_;      // [steps]
};

}  // namespace siamese
